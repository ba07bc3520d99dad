"""`make bench-peers`: LangGraph's savers beside ours, in an environment of their own.

    python -m bench.peers_main [--turns N] [--full] [--strict] [--here]

Makes build/peers, a scratch environment with the peers and what relight needs, at the versions of
requirements/dev.txt, and runs bench/peers.py in it on the relight of this directory. `--here` uses the present
environment instead.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PEERS = ("langgraph", "langgraph-checkpoint-sqlite")


def main() -> int:
    """Make the environment, or, inside it, run."""
    options = argparse.ArgumentParser(prog="bench-peers", description=__doc__)
    options.add_argument("--turns", type=int, default=2000)
    options.add_argument("--full", action="store_true", help="every save of SqliteSaver too: minutes, gigabytes")
    options.add_argument("--strict", action="store_true", help="exit 1 where a goal is missed")
    options.add_argument("--here", action="store_true", help="in the present environment")
    options.add_argument("--build", type=Path, default=ROOT / "build")
    given = options.parse_args()
    given.build.mkdir(exist_ok=True)
    if not given.here:
        python = _environment(given.build / "peers")
        command = [str(python), "-m", "bench.peers_main", *sys.argv[1:], "--here"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    return _run(given)


def _environment(place: Path) -> Path:
    """A scratch environment, made once; the versions are the pinned ones."""
    python = place / "bin" / "python"
    ready = place / ".ready"
    pins = ROOT / "requirements" / "dev.txt"
    if ready.exists() and ready.stat().st_mtime > pins.stat().st_mtime:
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    constraints = place / "constraints.txt"
    constraints.write_text("\n".join(line.split(" ")[0] for line in pins.read_text().splitlines() if "==" in line))
    subprocess.run([python, "-m", "pip", "install", "--quiet", "-c", constraints, *PEERS, *ours], check=True)
    ready.touch()
    return python


def _run(given: Any) -> int:
    from bench import peers

    with tempfile.TemporaryDirectory(prefix="relight-peers-", dir=given.build) as scratch:
        found = peers.measure(Path(scratch), given.turns, full=given.full)
    (given.build / "bench-peers.json").write_text(json.dumps(found))
    _print_table(found)
    rows = goals(found)
    for row in rows:
        print(f"{'ok  ' if row['held'] else 'MISS'}  {row['what']:<56} {row['value']:>9.2f}  goal {row['goal']}")
    missed = [row for row in rows if not row["held"]]
    print(f"\n{len(rows) - len(missed)} of {len(rows)} goals held; {given.build}/bench-peers.json")
    return 1 if missed and given.strict else 0


def _print_table(found: dict[str, Any]) -> None:
    print(f"growing transcript, {found['turns']:,} turns, {found['saves']:,} saves, SQLite, WAL, synchronous=FULL\n")
    print(f"      {'':<14} {'save p50 start':>14} {'end, ms':>9} {'whole run, s':>13} {'bytes/transcript':>17}")
    for name in ("library", "RelightSaver", "DeltaChannel", "SqliteSaver"):
        one = found[name]
        shown = f"{one['start_ms']:>14.2f} {one['end_ms']:>9.2f} {one['total_s']:>13.1f} {one['bytes_ratio']:>17.2f}"
        print(f"      {name:<14} {shown}")
    ours = found["RelightSaver"]
    print(f"\n      SqliteSaver: {found['SqliteSaver']['how']}")
    print(
        f"      RelightSaver in a new process: list {ours['fresh_list_ms']:.0f} ms, load the head "
        f"{ours['fresh_head_ms']:.0f} ms, the middle {ours['middle_ms']:.0f} ms\n"
    )


def goals(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Each figure beside what it should be."""
    ours, library, theirs = found["RelightSaver"], found["library"], found["SqliteSaver"]

    def at_most(what: str, value: float, goal: float) -> dict[str, Any]:
        return {"what": what, "value": value, "goal": f"<= {goal}", "held": value <= goal}

    def at_least(what: str, value: float, goal: float) -> dict[str, Any]:
        return {"what": what, "value": value, "goal": f">= {goal}", "held": value >= goal}

    return [
        at_most("save p50, end / start", ours["end_ms"] / ours["start_ms"], 1.2),
        at_most("save p50 / the library's own", ours["end_ms"] / library["end_ms"], 3.0),
        at_most("stored bytes / transcript", ours["bytes_ratio"], 1.5),
        at_least("the whole run, times faster than SqliteSaver", theirs["total_s"] / ours["total_s"], 50.0),
        at_least(
            "the whole run, times faster than DeltaChannel", found["DeltaChannel"]["total_s"] / ours["total_s"], 1.0
        ),
        at_most(f"list of {found['saves']:,}, ms", ours["list_ms"], 50.0),
        at_most(f"list of {found['saves']:,} in a new process, ms", ours["fresh_list_ms"], 50.0),
    ]


if __name__ == "__main__":
    sys.exit(main())
