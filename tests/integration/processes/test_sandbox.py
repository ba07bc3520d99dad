"""An agent in a sandbox: its hooks reach the supervisor, and nothing of ours can be read, written or led astray."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from relight.agents.claude_code import directories as claude
from relight.agents.codex import directories as codex
from relight.errors import UsageError
from relight.ports.agent import Surroundings
from relight.ports.runtime import CONFINED_VARIABLE
from relight.system.machine import open_log
from tests.integration.processes.conftest import Open

SANDBOX = ("--runtime", "sandbox", "--retries", "0")


@pytest.fixture(autouse=True)
def bwrap(program: Callable[[str], str]) -> str:
    return program("bwrap")


def looking(store: Path) -> str:
    """What an agent would try: the store and its tokens, its address, and a link where the supervisor writes."""
    run = f"{store}.run"
    tries = [
        f"ls {store}* > seen 2>&1",
        f"cat {run}/server/token >> seen",
        "env | grep ^RELIGHT_STORE >> seen",
        "cat /proc/1/environ /proc/[0-9]*/environ | tr '\\0' '\\n' | grep ^RELIGHT_STORE >> seen",
        f"touch {run}/planted {run}/$RELIGHT_SESSION/planted",
        f"ln -sf $PWD/victim {run}/$RELIGHT_SESSION/supervisor.log",
    ]
    return "; ".join([*tries, "true"])


def test_a_sandboxed_agent_reports_its_calls_and_sees_neither_store_nor_token(harness: Open) -> None:
    s = harness([{"text": "x", "calls": [{"shell": "true"}]}, {"text": "fin"}])
    s.play([{"text": "looking", "calls": [{"shell": looking(s.store)}]}, {"text": "fin"}])
    token = Path(f"{s.store}.run/server/token")
    token.parent.mkdir(parents=True)
    token.write_text("the-token")
    done = s.run("look around", *SANDBOX)
    assert done.returncode == 0, done.stderr
    seen = (s.work / "seen").read_text()
    assert not [word for word in ("the-token", "r.db-wal", "RELIGHT_STORE") if word in seen], seen
    run = Path(f"{s.store}.run")
    assert not [path for path in run.rglob("*") if path.name == "planted" or path.is_symlink()]
    kinds = [step.kind for step in s.steps()]
    assert "intent" in kinds, f"the hook did not reach the supervisor: {kinds}"


def test_a_directory_that_holds_the_store_is_refused(harness: Open) -> None:
    s = harness([{"text": "fin"}])
    done = s.run("x", *SANDBOX, RELIGHT_STORE=str(s.work / "r.db"))
    assert done.returncode == 2 and "contains relight's own files" in done.stderr, done.stderr


@pytest.mark.parametrize("plant", [os.symlink, os.link])
def test_a_log_is_never_written_through_a_link(tmp_path: Path, plant: Callable[[Path, Path], None]) -> None:
    victim, log = tmp_path / "victim", tmp_path / "supervisor.log"
    victim.write_text("")
    plant(victim, log)
    with pytest.raises(OSError, match=r"regular file|symbolic"):
        open_log(log)


@pytest.mark.parametrize("where", [".claude", ".claude/projects", ".codex", ".codex/sessions"])
def test_a_confined_agents_link_out_of_its_home_is_not_followed(tmp_path: Path, where: str) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    (home / where).parent.mkdir(parents=True)
    outside.mkdir()
    (home / where).symlink_to(outside)
    find = claude.projects if where.startswith(".claude") else codex.sessions_of
    own = Surroundings(directory=str(tmp_path), environment={"HOME": str(home)})
    assert find(own).resolve().is_relative_to(outside), "a user's own link is the user's business"
    confined = Surroundings(directory=str(tmp_path), environment={"HOME": str(home), CONFINED_VARIABLE: "1"})
    with pytest.raises(UsageError, match="does not lie in the agent's own directory"):
        find(confined)
