"""No code runs from looking at a workspace or restoring it, whatever its repositories are set up to run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.figures import Figure
from tests.support.files_harness import FilesHarness, reply

ROOT = Path(__file__).resolve().parents[3]
STARTS = [
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "os.forkpty",
    "pty.spawn",
]
VECTORS = 8

LOOKING = """
import json, sys
from pathlib import Path
import relight
from relight.files import diff, restore
from relight.sessions import session
from relight.stores.sqlite import store
from relight.workspaces import home
from relight.workspaces.changes import native
native.load()  # compiled once a machine, from our own source
started = []
sys.addaudithook(lambda event, about: started.append([event, repr(about)[:200]]) if event in STARTS else None)
tree = Path(sys.argv[2])
with relight.open(sys.argv[1]) as rl:
    with rl.session("agent", workspace=tree) as s:
        s.append({"role": "assistant", "content": "1"})
        (tree / "file").write_text("changed")
        (tree / "nested/file").unlink()
        s.append({"role": "assistant", "content": "2"})
    rl.files.diff("agent@2", "agent@3")
    rl.files.restore("agent@2", choice="force")
    rl.files.diff("agent@3")
    rl.history.undo("agent")
print(json.dumps(started))
"""


def trap(repository: Path, mark: Path) -> None:
    """A repository that runs a program at every chance git gives it."""
    script = mark.with_suffix(".sh")
    script.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    script.chmod(0o755)
    config = repository / ".git/config"
    config.write_text(
        config.read_text()
        + f"\n[core]\n\tfsmonitor = {script}\n\thooksPath = {script.parent}\n"
        + f"\tsshCommand = {script}\n\tpager = {script}\n"
        + f'[filter "evil"]\n\tclean = {script}\n\tsmudge = {script}\n[diff "evil"]\n\ttextconv = {script}\n'
        + f"\texternal = {script}\n"
    )
    (repository / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (repository / "file").write_text("as it was")


@pytest.mark.guarantee("G20")
def test_nothing_is_started_by_looking_or_restoring(
    memory_path: Path, figure: Figure, program: Callable[[str], str]
) -> None:
    tree, mark = memory_path / "tree", memory_path / "it-ran"
    for repository in (tree, tree / "nested"):
        repository.mkdir()
        subprocess.run([program("git"), "init", "-q", str(repository)], check=True, capture_output=True)
        trap(repository, mark)
    subprocess.run([program("git"), "-C", str(tree), "status"], check=False, capture_output=True)
    assert mark.exists(), "the trap does not work, so it proves nothing"
    mark.unlink()
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT / "src")]))
    done = subprocess.run(
        [sys.executable, "-c", f"STARTS = {STARTS!r}\n{LOOKING}", str(memory_path / "r.db"), str(tree)],
        env={**os.environ, "PYTHONPATH": path, "RELIGHT_HINTS": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    started = json.loads(done.stdout)
    assert started == [] and not mark.exists()
    figure(
        "G20", f"{VECTORS} settings that make git run a program, in 2 repositories: {len(started)} processes started"
    )


@pytest.mark.guarantee("G20")
def test_restored_files_that_can_run_later_are_named(harness: FilesHarness, figure: Figure) -> None:
    rl = harness.start()
    later = [
        "nested/.git/hooks/pre-commit",
        "nested/.git/config",
        ".claude/settings.json",
        ".mcp.json",
        ".vscode/tasks.json",
        ".envrc",
        ".husky/pre-push",
    ]
    with rl.session("agent", workspace=harness.root) as s:
        for name in (*later, "src/main.py"):
            harness.write(name, "one")
        s.append(reply("1"))
        for name in (*later, "src/main.py"):
            harness.write(name, "two")
        s.append(reply("2"))
    plan = rl.files.restore("agent@2", dry_run=True).plans["main"]
    assert {os.fsdecode(path) for path in plan.decision.may_run_later} == set(later)
    assert b"src/main.py" in {action.path for action in plan.decision.writes}
    figure("G20", f"{len(later)} files that run by themselves later, all named before they are restored")
