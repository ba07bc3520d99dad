"""Runs the tests of the real coding agents: installed first, then driven where nothing but loopback can be reached.

The agents come from the package registry into a cache, once. The tests then run in a network namespace that has only
`lo`, where this machine lets us make one; where it does not, that is said. First those
that measure time, alone, and what they measured; then all others, side by side. Arguments go to the latter.

With --elsewhere it is the proof alone, with all its SIGKILLs, on a machine without Linux's special calls.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support import real_agents as real  # noqa: E402 - found by the line above

MEASURED = ROOT / "build" / "agent-costs.txt"
_COSTS = "tests/integration/agents/test_real_costs.py"
_PROOF = "tests/integration/agents/test_real_proof.py"


def main(arguments: list[str]) -> int:
    """Install, run, tell."""
    os.chdir(ROOT)
    where = real.installed()
    more = (real.pi_script(), real.opencode_binary(), real.gemini_script())  # installed before the network is gone
    print(f"claude {real.CLAUDE_VERSION}, codex {real.CODEX_VERSION} in {where}", flush=True)
    versions = f"pi {real.PI_VERSION}, opencode {real.OPENCODE_VERSION}, gemini {real.GEMINI_VERSION}"
    print(f"{versions}: {', '.join(map(str, more))}", flush=True)
    if not real.can_isolate():
        print("no network namespace can be made here: the tests run with the network as it is", flush=True)
    MEASURED.unlink(missing_ok=True)
    python = [sys.executable, "-m", "pytest", "-m", "agents", "--durations=8"]
    jobs = os.environ.get("JOBS", "auto")
    if arguments[:1] == ["--elsewhere"]:
        there = [sys.executable, str(ROOT / "tools" / "elsewhere.py")]
        for binary in (real.claude_binary(), real.codex_binary(), real.opencode_binary()):
            there += ["--linux-program", str(binary)]
        proof = real.isolated([*there, *python, "-n", jobs, _PROOF, *arguments[1:]])
        return subprocess.run(proof, env={**os.environ, "RELIGHT_PROOF": "1"}, check=False).returncode
    alone = subprocess.run(real.isolated([*python, "-p", "no:xdist", _COSTS]), check=False)
    if MEASURED.exists():
        print(MEASURED.read_text(encoding="utf-8"), end="", flush=True)
    others = subprocess.run(
        real.isolated([*python, "-n", jobs, "--dist", "worksteal", f"--ignore={_COSTS}", "tests", *arguments]),
        check=False,
    )
    return alone.returncode or others.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
