"""A session that is removed while it is read is gone; nobody may be told that it is damaged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.errors import NotFound
from relight.history.loading import load, resolve
from relight.values.step import Step
from tests.support.redis_server import RedisServer, redis_program

LARGE_BYTES = 3_000_000
"""so that steps do not come in one batch"""


@pytest.fixture(scope="module")
def server(program: Callable[[str], str]) -> Iterator[RedisServer]:
    one = RedisServer(redis_program(program), loopback=True)
    yield one
    one.stop()


def test_what_was_found_and_then_removed_is_not_found(tmp_path_factory: pytest.TempPathFactory) -> None:
    for url in ("memory:", str(tmp_path_factory.mktemp("removed") / "r.db")):
        with relight.open(url) as rl:
            with rl.session("talk") as session:
                session.append({"role": "user", "content": "hello"})
            store = rl._context.store
            found = resolve(store, "talk")
            rl.sessions.remove("talk")
            with pytest.raises(NotFound):
                load(store, found)


def test_steps_of_a_session_that_goes_while_they_are_read_end_there(server: RedisServer) -> None:
    with relight.open(server.url) as rl:
        with rl.session("talk") as session:
            for _ in range(4):
                session.append({"role": "user", "content": os.urandom(LARGE_BYTES).hex()})
        events = rl.history.events("talk")
        assert next(events).seq == 1
        rl.sessions.remove("talk")
        assert all(event.messages or event.kind == "attempt" for event in events)


@pytest.mark.parametrize("moment", ["before", "between", "after"])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_store_is_whole_though_a_session_goes_while_it_is_verified(
    kind: str, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with relight.open("memory:" if kind == "memory" else tmp_path / "r.db") as rl:
        for name in ("one", "two"):
            with rl.session(name) as session:
                session.append({"role": "user", "content": "hello"})
        store, gone = rl._context.store, rl.sessions.get("two").id
        steps = store.steps

        def removed_meanwhile(session: str, **limits: Any) -> Iterator[Step]:
            """The steps, while another process removes the session."""
            read = list(steps(session, **limits)) if moment != "before" or session != gone else []
            if session == gone and rl.sessions.find(gone) is not None:
                rl.sessions.remove(gone)
            return iter(read[:1] if moment == "between" and session == gone else read)

        monkeypatch.setattr(store, "steps", removed_meanwhile)
        report = rl.history.verify()
        assert (report.problems, report.sessions) == ([], 1)
