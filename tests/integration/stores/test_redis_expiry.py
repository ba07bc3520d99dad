"""On Redis finished sessions expire by the server's own clock; nothing else does, and nothing is left in an index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.testclient import TestClient

import relight
from relight.library.facade import Relight
from relight.server.app import create_app, make_guard
from relight.server.settings import ServerSettings
from relight.stores.redis import expiry
from relight.stores.redis.store import RedisStore
from relight.system.machine import SystemClock
from tests.support.redis_server import ALWAYS, RedisServer, redis_program
from tests.support.shell import eventually

DAY_MS = 86_400_000
SOON = 0.4 / 86_400
"""days: less than half a second"""


@pytest.fixture(scope="module")
def server(program: Callable[[str], str]) -> Iterator[RedisServer]:
    started = RedisServer(redis_program(program), ALWAYS)
    yield started
    started.stop()


@pytest.fixture
def rl(server: RedisServer) -> Iterator[Relight]:
    with server.client() as client:
        client.flushall()
    with relight.open(RedisStore(server.url, SystemClock())) as opened:
        yield opened


def finished(rl: Relight, name: str) -> str:
    with rl.session(name, labels={"team": "web"}) as s:
        s.append({"role": "user", "content": "x"})
        s.checkpoint("here")
        s.complete("done")
    return s.id


def times(server: RedisServer, session: str) -> set[int]:
    """Milliseconds left of the keys with content; -1: for ever, -2: gone."""
    with server.client() as client:
        found = [client.pttl(f"relight:s:{{{session}}}:{name}") for name in ("identity", "head", "steps", "labels")]
    return {int(one) for one in found}


def test_a_verdict_gives_every_key_seven_days_and_going_on_takes_them_away(server: RedisServer, rl: Relight) -> None:
    session = finished(rl, "a")
    assert all(6.9 * DAY_MS < one <= 7 * DAY_MS for one in times(server, session))
    rl.history.label("a@1", "later")
    with rl.session("a") as s:  # reads a finished one; nothing is written
        assert s.is_finished
    assert min(times(server, session)) > 6.9 * DAY_MS
    rl.runs.send("a", "go on")
    assert times(server, session) == {-1}
    with pytest.raises(RuntimeError), rl.session("a"):
        raise RuntimeError("dies")
    assert times(server, session) == {-1}, "a failed one can be resumed, and never expires"
    assert rl.history.verify().ok


def test_a_policy_changes_what_is_there_and_off_keeps_it(server: RedisServer, rl: Relight) -> None:
    before = finished(rl, "before")
    rl.admin.set_retention(30.0)
    assert min(times(server, before)) > 29 * DAY_MS
    assert min(times(server, finished(rl, "after"))) > 29 * DAY_MS
    rl.admin.set_retention(None)
    assert times(server, before) == times(server, finished(rl, "kept")) == {-1}


def test_what_a_fork_reads_from_does_not_expire_until_the_fork_has(server: RedisServer, rl: Relight) -> None:
    parent = finished(rl, "p")
    fork = rl.history.fork("p@2", name="f").id
    assert times(server, parent) == {-1}
    rl.admin.set_retention(SOON)
    assert times(server, parent) == {-1} and rl.sessions.find("f") is not None
    rl.runs.send("f", "go on")
    with rl.session("f") as s:
        s.complete("done")
    eventually(lambda: rl.sessions.find(fork) is None, what="the fork to expire")
    finished(rl, "other")  # takes the rest of the fork away; its parent has a time now
    eventually(lambda: rl.sessions.find(parent) is None, what="the parent to expire")
    assert rl.history.verify().ok


def test_an_expired_session_is_nowhere_and_its_name_is_free(server: RedisServer, rl: Relight) -> None:
    rl.admin.set_retention(SOON)
    session = finished(rl, "job")
    kept = rl.session("kept")
    kept.append({"role": "user", "content": "unfinished"})
    eventually(lambda: times(server, session) == {-2}, what="its keys to expire")
    assert rl.sessions.find("job") is None and rl.sessions.find(session) is None
    assert [info.name for info in rl.sessions.list()] == ["kept"]
    assert rl.sessions.counts().get("completed", 0) == 0
    assert list(rl.sessions.list(labels={"team": "web"})) == [] and rl.history.verify().ok
    expired = rl.sessions.removed(session)
    assert expired is not None and expired.by_policy and expired.sessions == [session]
    assert rl.sessions.removed(kept.id) is None and rl.sessions.removed("0" * 32) is None
    rl.admin.set_retention(None)
    again = finished(rl, "job")
    buried = rl.sessions.removed(session)
    assert buried is not None and buried.at_us == expired.at_us, "the same answer once a write took the rest away"
    assert len(rl.sessions.removals()) == 1
    assert again != session and rl.sessions.get("job").id == again and rl.history.verify().ok
    with server.client() as client:
        left = [key for key in client.keys("*") if session.encode() in key]
        indexes = client.keys("*by:*")
        listed = [key for key in indexes if any(session.encode() in one for one in client.zrange(key, 0, -1))]
    assert left == listed == [], "nothing leads to it any more"


def test_the_address_of_an_expired_session_says_that_it_went(server: RedisServer, rl: Relight, tmp_path: Path) -> None:
    rl.admin.set_retention(SOON)
    session = finished(rl, "job")
    settings = ServerSettings(directory=tmp_path / "server", sweep=False)
    guard = make_guard(settings, None)
    app = create_app(rl, guard=guard, settings=settings)
    token = {"Authorization": f"Bearer {guard.tokens.add('read', 'read')}"}
    client = TestClient(app, base_url="http://127.0.0.1:7878", headers=token)
    eventually(lambda: times(server, session) == {-2}, what="its keys to expire")
    before = client.get(f"/api/sessions/{session}")
    finished(rl, "other")  # takes the rest of it away
    after = client.get(f"/api/sessions/{session}")
    assert before.status_code == after.status_code == 410, before.text
    assert before.json()["evidence"] == after.json()["evidence"]
    assert client.get(f"/api/sessions/{'0' * 32}").status_code == 404
    guard.tokens.state.close()


def test_tombstones_of_expired_sessions_are_bounded(rl: Relight, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "MAX_TOMBSTONES", 3)
    monkeypatch.setattr(expiry, "MAX_TIDIED", 1)
    rl.admin.set_retention(0.001 / 86_400)
    ids = [finished(rl, f"s{number}") for number in range(8)]
    eventually(lambda: rl.sessions.find(ids[-1]) is None, what="the last one to expire")
    for number in range(8):
        rl.session(f"other{number}").complete()
    assert len(rl.sessions.removals()) <= 5


def test_a_deadline_that_has_passed_when_the_end_is_committed_leaves_no_key(rl: Relight, server: RedisServer) -> None:
    rl.admin.set_retention(1e-12)  # by the time of the commit it is over
    assert [times(server, finished(rl, f"s{number}")) for number in range(20)] == [{-2}] * 20
    assert list(rl.sessions.list()) == []


class Interrupted:
    """A connection whose first transaction comes right after somebody else acted."""

    def __init__(self, server: Any, somebody: Callable[[], None]) -> None:
        self._server, self._somebody = server, [somebody]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    def transact(self, *given: Any) -> Any:
        while self._somebody:
            self._somebody.pop()()
        return self._server.transact(*given)


def test_two_that_tidy_one_session_at_once_subtract_its_size_once(server: RedisServer, rl: Relight) -> None:
    rl.session("kept").append({"role": "user", "content": "unfinished"})
    kept = size_of(server)
    rl.admin.set_retention(SOON)
    session = finished(rl, "job")
    assert size_of(server) > kept
    eventually(lambda: times(server, session) == {-2}, what="its keys to expire")
    with closing(RedisStore(server.url, SystemClock())) as one, closing(RedisStore(server.url, SystemClock())) as other:
        keys, theirs = one._journal.expiry._keys, other._journal.expiry
        between = Interrupted(one._server, lambda: theirs.tidy([session]))
        expiry.Expiry(cast(Any, between), keys).tidy([session])
    assert size_of(server) == kept
    assert len(rl.sessions.removals()) == 1


def size_of(server: RedisServer) -> int:
    with server.client() as client:
        return int(client.get("relight:bytes") or 0)
