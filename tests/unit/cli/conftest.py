"""A store of its own for every test, and some sessions in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import relight
from tests.support.calls import call, send_mail
from tests.support.shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    directory = tmp_path / "shop"
    directory.mkdir()
    return Shell(tmp_path / "store" / "p.db", directory)


@pytest.fixture
def rl(shell: Shell) -> Iterator[relight.Relight]:
    with relight.open(shell.store) as opened:
        yield opened


@relight.tool(effect="pure")
def run_tests() -> str:
    raise RuntimeError("2 failed: test_lock, test_sync")


@pytest.fixture
def some(rl: relight.Relight) -> relight.Relight:
    """One session of each kind that people have: waiting, completed, failed, stopped, archived."""
    with rl.session("fix-login", agent="claude", task="Make the login test pass", labels={"team": "web"}) as s:
        s.append({"role": "user", "content": "Make the login test pass"})
        s.append(call("c1", "run_tests"), {"input_tokens": 900, "output_tokens": 100, "cost": 1.5})
        s.run_tool(s.pending_calls()[0], [run_tests, send_mail])
        s.checkpoint("tests-red")
        s.append(call("c2", "send_mail", '{"to": "bob"}'))
        s.run_tool(s.pending_calls()[0], [run_tests, send_mail])
        s.append({"role": "assistant", "content": "The lock test expects the old path."})
        with pytest.raises(relight.Waiting):
            s.ask("Run `git push origin main`?")
    with rl.session("changelog") as s:
        s.append({"role": "assistant", "content": "Wrote the changelog for 2.4"})
        s.complete({"files": 1})
    with pytest.raises(RuntimeError), rl.session("nightly-docs") as s:
        s.append({"role": "user", "content": "docs"})
        raise RuntimeError("key refused: 401")
    with rl.session("port-to-uv") as s:
        s.append({"role": "user", "content": "port it"})
    with rl.session("old") as s:
        s.complete()
    rl.sessions.archive("old")
    return rl
