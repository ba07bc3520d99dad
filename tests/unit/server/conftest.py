"""A server of its own for every test that changes something, over some sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import relight
from tests.support.calls import call, send_mail
from tests.support.server_harness import ServerHarness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ServerHarness]:
    made = ServerHarness(tmp_path / "p.db")
    yield made
    made.close()


@pytest.fixture
def client(harness: ServerHarness) -> Iterator[TestClient]:
    """As somebody who may do everything; the server's own loops run."""
    with harness.client() as opened:
        yield opened


def fill(rl: relight.Relight) -> None:
    """One session of each kind that people have."""
    with rl.session("fix-login", agent="claude", task="Make the login test pass", labels={"team": "web"}) as s:
        s.append({"role": "user", "content": "Make the login test pass"})
        s.append(call("c1", "send_mail", '{"to": "bob"}'), {"input_tokens": 900, "output_tokens": 100, "cost": 1.5})
        s.run_tool(s.pending_calls()[0], [send_mail])
        s.checkpoint("tests-red")
        s.append({"role": "assistant", "content": "The lock test expects the old path."})
        with pytest.raises(relight.Waiting):
            s.ask("Run `git push origin main`?")
    with rl.session("changelog", agent="codex", provider="openai") as s:
        s.append({"role": "assistant", "content": "Wrote the changelog for 2.4"})
        s.complete({"files": 1})
    with pytest.raises(RuntimeError), rl.session("nightly-docs") as s:
        s.append({"role": "user", "content": "docs"})
        raise RuntimeError("key refused: 401")
    with rl.session("port-to-uv") as s:
        s.append({"role": "user", "content": "port it"})


@pytest.fixture
def some(harness: ServerHarness) -> ServerHarness:
    fill(harness.rl)
    return harness
