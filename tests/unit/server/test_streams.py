"""Events reach whoever listens: without gap or duplicate, after a reconnect too, and no listener slows a session."""

from __future__ import annotations

import asyncio
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

import apsw
import pytest

import relight
from relight.server.live.streams import Topic
from relight.stores.sqlite.store import SqliteStore
from tests.support.event_stream import Listener
from tests.support.figures import Figure
from tests.support.server_harness import ServerHarness, listening
from tests.support.server_process import Place, Server
from tests.support.shell import eventually


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[ServerHarness, int]]:
    harness = ServerHarness(tmp_path / "p.db", heartbeat_seconds=0.3, ring=64, send_seconds=2.0, rate_burst=100_000)
    with listening(harness) as port:
        yield harness, port
    harness.close()


FLIP = "CREATE TRIGGER flip AFTER INSERT ON bodies BEGIN UPDATE bodies SET data = x'00' WHERE id = new.id; END"


def say(s: relight.Session, *numbers: int) -> None:
    for number in numbers:
        s.append({"role": "user", "content": f"step {number} " + "x" * 200})


def newest(s: relight.Session) -> int:
    return int(s.head.rpartition("@")[2])


def test_a_listener_gets_every_step_once_also_after_a_reconnect(served: tuple[ServerHarness, int]) -> None:
    harness, port = served
    token = harness.tokens["read"]

    async def listen(s: relight.Session) -> list[str]:
        async with Listener.open(port, "/api/sessions/live/events?after=0", token) as first:
            assert first.status == 200
            ids = [one.id for one in await first.take(4)]
            await asyncio.to_thread(say, s, 4, 5, 6)
            ids += [one.id for one in await first.take(3)]
        await asyncio.to_thread(say, s, *range(7, 150))  # more than the ring holds
        async with Listener.open(port, "/api/sessions/live/events", token, last=ids[-1]) as again:
            ids += [one.id for one in await again.take(newest(s) - len(ids))]
            await asyncio.to_thread(say, s, 150)
            ids += [one.id for one in await again.take(1)]
        return ids

    with harness.rl.session("live") as s:
        say(s, 1, 2, 3)
        ids = asyncio.run(listen(s))
        assert ids == [str(seq) for seq in range(1, newest(s) + 1)]


def test_without_a_last_id_only_what_is_new_comes_and_silence_is_told(served: tuple[ServerHarness, int]) -> None:
    harness, port = served

    async def listen(s: relight.Session) -> None:
        async with Listener.open(port, "/api/sessions/live/events", harness.tokens["read"]) as one:
            before = newest(s)
            async with asyncio.timeout(20):
                while not (await one.reader.readline()).startswith(b":"):
                    continue
            await asyncio.to_thread(say, s, 2)
            (heard,) = await one.take(1)
            assert int(heard.id) == before + 1 and heard.event == "step"
            assert heard.data["messages"][0]["content"].startswith("step 2")

    with harness.rl.session("live") as s:
        say(s, 1)
        asyncio.run(listen(s))


def test_the_general_stream_tells_what_changed_and_says_when_to_reload(served: tuple[ServerHarness, int]) -> None:
    harness, port = served
    token = harness.tokens["read"]

    def work() -> None:
        with pytest.raises(relight.Waiting), harness.rl.session("other") as s:
            s.append({"role": "user", "content": "x"})
            s.ask("really?")

    async def listen() -> None:
        async with Listener.open(port, "/api/events", token, last="other-7") as stale:
            assert [heard.event for heard in await stale.take(1)] == ["reload"]
        async with Listener.open(port, "/api/events", token) as one:
            while harness.service.hub.polls < 1:  # the first look only learns what is there
                await asyncio.sleep(0.01)
            await asyncio.to_thread(work)
            async with asyncio.timeout(20):
                while (heard := await one.heard()) is not None:
                    if heard.event == "session" and heard.data["status"] == "waiting":
                        break
            assert heard is not None and heard.data["name"] == "other"
            assert heard.data["attention"]["kind"] == "waiting"
        async with Listener.open(port, "/api/events", token, last=heard.id) as again:
            assert again.status == 200
        run, _, number = str(heard.id).partition("-")
        async with Listener.open(port, f"/api/events?brief=true&after={run}-{int(number) - 1}", token) as brief:
            (short,) = await brief.take(1)
            assert short.id == heard.id and set(short.data) == {"id", "status", "seq", "created_at"}
        assert harness.service.hub.position().startswith(run)

    asyncio.run(listen())


def test_a_removed_session_ends_its_streams(served: tuple[ServerHarness, int]) -> None:
    harness, port = served
    with harness.rl.session("gone") as s:
        say(s, 1)

    async def listen() -> None:
        async with Listener.open(port, "/api/sessions/gone/events?after=0", harness.tokens["read"]) as one:
            await one.take(3)
            await asyncio.to_thread(harness.rl.sessions.remove, "gone")
            (heard,) = await one.take(1)
            assert heard.event == "over" and heard.data == {"why": "removed"}

    asyncio.run(listen())


def test_a_revoked_token_loses_its_open_stream(served: tuple[ServerHarness, int]) -> None:
    harness, port = served
    with harness.rl.session("live"):
        token = harness.guard.tokens.add("guest", "read")

        async def listen() -> None:
            async with Listener.open(port, "/api/sessions/live/events", token) as one:
                await asyncio.to_thread(harness.guard.tokens.revoke, "guest")
                assert await one.take(1) == []

        asyncio.run(listen())


def test_a_revoked_token_loses_its_stream_also_where_it_is_never_silent(served: tuple[ServerHarness, int]) -> None:
    harness, port = served
    with harness.rl.session("busy") as s:
        token = harness.guard.tokens.add("guest-2", "read")
        ended = threading.Event()

        def talk() -> None:
            while not ended.wait(0.02):
                s.append({"role": "user", "content": "on and on"})

        async def listen() -> None:
            async with Listener.open(port, "/api/sessions/busy/events", token) as one:
                assert len(await one.take(2)) == 2
                await asyncio.to_thread(harness.guard.tokens.revoke, "guest-2")
                await one.take(10**9, seconds=10)  # until its end, which has to come

        talking = threading.Thread(target=talk)
        talking.start()
        try:
            asyncio.run(listen())
        finally:
            ended.set()
            talking.join()


def test_more_streams_than_allowed_are_refused(tmp_path: Path) -> None:
    harness = ServerHarness(tmp_path / "p.db", streams=2)

    async def listen(port: int) -> list[int]:
        async with AsyncExitStack() as open_ones:
            made = [
                await open_ones.enter_async_context(Listener.open(port, "/api/events", harness.tokens["read"]))
                for _ in range(3)
            ]
            return [one.status for one in made]

    with listening(harness) as port:
        assert asyncio.run(listen(port)) == [200, 200, 429]
    harness.close()


@pytest.mark.guarantee("G27")
def test_many_listeners_hear_each_step_at_once_and_a_slow_one_slows_nobody(
    tmp_path: Path, sample: Callable[..., int], figure: Figure
) -> None:
    location = Place(tmp_path)
    with location.serve() as server:
        late = heard_by_many(location, server, sample(60, proof=1000), sample(5, proof=20))
    assert median(late) <= sample(2, proof=1) and max(late) <= sample(20, proof=1), sorted(late)[
        -5:
    ]  # others run beside the suite
    many = len(late) // sample(5, proof=20)
    figure("G27", f"{many} listeners: a step reached the last after {max(late):.2f} s (median {median(late):.2f})")


def heard_by_many(location: Place, server: Server, many: int, steps: int) -> list[float]:
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(65_536, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)

    async def listen(s: relight.Session) -> list[float]:
        path, token, port = "/api/sessions/live/events", server.token, int(server.base.rpartition(":")[2])
        async with AsyncExitStack() as held:
            for _ in range(3):  # they ask for everything, and read nothing of it
                await held.enter_async_context(Listener.open(port, f"{path}?after=0", token))
            every = [await held.enter_async_context(Listener.open(port, path, token)) for _ in range(many)]
            late: list[float] = []
            for number in range(steps):
                await asyncio.to_thread(say, s, number)
                saved = time.monotonic()
                heard = await asyncio.gather(*(one.take(1) for one in every))
                late += [one[0].at - saved for one in heard]
            return late

    with relight.open(location.shell.store) as rl, rl.session("live") as s:
        s.append({"role": "user", "content": "y" * 200_000})  # so that who does not read fills its buffers
        for _ in range(20):
            s.append({"role": "user", "content": "y" * 200_000})
        late = asyncio.run(listen(s))
    assert len(late) == many * steps
    return late


def test_a_listener_that_takes_nothing_is_dropped(served: tuple[ServerHarness, int]) -> None:
    harness, port = served
    with harness.rl.session("live") as s, socket.socket() as deaf:
        for _ in range(60):
            s.append({"role": "user", "content": "y" * 240_000})
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", port))
        asked = "GET /api/sessions/live/events?after=0 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\n\r\n"
        deaf.sendall(asked.format(harness.tokens["read"]).encode())
        metrics = harness.service.metrics
        eventually(lambda: metrics.streams._value.get() == 1, what="the stream being open")
        eventually(lambda: metrics.dropped._value.get() == 1, what="the stream being dropped")
        eventually(lambda: metrics.streams._value.get() == 0, what="the stream being gone")
        say(s, 1)


def test_a_damaged_session_ends_its_own_streams_only(served: tuple[ServerHarness, int]) -> None:
    harness, port = served
    token = harness.tokens["read"]

    async def listen(s: relight.Session, other: relight.Session) -> None:
        path = "/api/sessions/{}/events"
        async with (
            Listener.open(port, path.format("broken"), token) as one,
            Listener.open(port, path.format("whole"), token) as two,
        ):
            with apsw.Connection(str(harness.store)) as damaged:
                damaged.execute(FLIP)
            await asyncio.to_thread(say, s, 2)
            with apsw.Connection(str(harness.store)) as damaged:
                damaged.execute("DROP TRIGGER flip")
            (heard,) = await one.take(1)
            assert heard.event == "over" and heard.data["why"].startswith("damaged")
            await asyncio.to_thread(say, other, 2)
            assert [heard.event for heard in await two.take(1)] == ["step"]
            async with Listener.open(port, path.format("broken") + f"?after={newest(s)}", token) as again:
                await asyncio.to_thread(say, s, 3)
                assert [heard.event for heard in await again.take(1)] == ["step"], "live again behind what is damaged"

    with harness.rl.session("whole") as other, harness.rl.session("broken") as s:
        asyncio.run(listen(s, other))


def test_who_reads_a_damaged_session_from_its_beginning_gets_what_is_whole_and_is_told_where_it_ends(
    served: tuple[ServerHarness, int],
) -> None:
    harness, port = served
    with harness.rl.session("broken") as s:
        say(s, 1, 2, 3)
        last = newest(s)
    with apsw.Connection(str(harness.store)) as damaged:
        damaged.execute("UPDATE bodies SET data = x'00' WHERE id = (SELECT body FROM steps WHERE seq = ?)", (last,))

    async def listen() -> None:
        async with Listener.open(port, "/api/sessions/broken/events?after=0", harness.tokens["read"]) as one:
            heard = await one.take(last)
            assert [each.id for each in heard[:-1]] == [str(seq) for seq in range(1, last)]
            assert heard[-1].event == "over" and heard[-1].data["why"].startswith("damaged")

    asyncio.run(listen())


def test_who_knows_a_step_before_the_follower_does_is_not_told_it_again(tmp_path: Path) -> None:
    harness = ServerHarness(tmp_path / "p.db", poll_seconds=1.0)

    async def listen(s: relight.Session, port: int) -> None:
        path, token = "/api/sessions/live/events", harness.tokens["read"]
        async with Listener.open(port, path, token):
            await asyncio.to_thread(say, s, 2)
            known = newest(s)
            async with Listener.open(port, f"{path}?after={known}", token) as two:
                await asyncio.to_thread(say, s, 3)
                (heard,) = await two.take(1)
                assert int(heard.id) == known + 1

    with listening(harness) as port, harness.rl.session("live") as s:
        say(s, 1)
        asyncio.run(listen(s, port))
    harness.close()


def test_a_fault_of_the_follower_is_logged_and_followed_by_the_next_look(
    served: tuple[ServerHarness, int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    harness, port = served
    looks = iter([RuntimeError("nobody thought of it")])
    changed = SqliteStore.changed

    def faulty(store: SqliteStore) -> object:
        for fault in looks:
            raise fault
        return changed(store)

    async def listen(s: relight.Session) -> None:
        async with Listener.open(port, "/api/sessions/live/events", harness.tokens["read"]) as one:
            monkeypatch.setattr(SqliteStore, "changed", faulty)
            while "nobody thought of it" not in caplog.text:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(say, s, 2)
            assert [heard.event for heard in await one.take(1)] == ["step"]

    with harness.rl.session("live") as s:
        say(s, 1)
        asyncio.run(asyncio.wait_for(listen(s), 20))


@pytest.mark.guarantee("G27")
def test_a_ring_is_bounded_in_number_and_in_bytes() -> None:
    async def fill() -> None:
        topic = Topic(0, 8)
        topic.put((number, b"x" * 100) for number in range(1, 101))
        assert topic.after(0) is None and [one[0] for one in topic.after(95) or []] == [96, 97, 98, 99, 100]
        assert topic.after(100) == [] and topic.after(92) is not None and topic.after(91) is None
        large = Topic(0, 1000)
        large.put((number, b"x" * 1_000_000) for number in range(1, 21))
        assert large._bytes <= 4 * 1024 * 1024 and large.newest == 20

    asyncio.run(fill())
