"""Whatever ends in the middle of a commit (a writer, the server, the wire): no acknowledged step is lost, none is
there twice, and everything goes on by itself."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

import relight
from relight.errors import Conflict, LeaseHeld, LeaseLost, StoreUnavailable
from relight.stores.postgres.store import PostgresStore
from relight.system.machine import SystemClock, SystemEntropy
from relight.testing.store_checks.trial import Hooks, Trial
from relight.values.lease import Instant
from relight.values.session import Head, Identity
from tests.support.figures import Figure
from tests.support.postgres_server import Server, python, running, wait_for

pytestmark = pytest.mark.crash

WRITER = """
import sys, relight
from relight.errors import StoreUnavailable
url, name = sys.argv[1:]
with relight.open(url) as rl, rl.session(name) as s:
    told = len(s.messages)
    while True:
        try:
            s.append({"role": "user", "content": str(told)})
        except StoreUnavailable:
            continue  # the same message again, until it is known
        print(told, flush=True)
        told += 1
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(own=True) as one:
        yield one


class Writer:
    """A process that writes numbers and says which ones it was told are durable."""

    def __init__(self, url: str, name: str, fault: str = "") -> None:
        self.process = python(WRITER, url, name, RELIGHT_HINTS="0", **({"RELIGHT_FAULT": fault} if fault else {}))
        self.reported: list[int] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):
                self.reported.append(int(line))

    def wait_for_more(self, more: int = 3) -> None:
        wanted = len(self.reported) + more
        wait_for(lambda: len(self.reported) >= wanted or self.process.poll() is not None, "a writer goes on")
        assert self.process.poll() is None, self.process.communicate()[1]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        assert self.process.stderr is not None and self.process.stderr.read() == "", "nothing but what we say"
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


def history(url: str, name: str) -> list[int]:
    with relight.open(url) as rl:
        assert rl.store.check() == []
        assert rl.history.verify(name).problems == []
        return [int(message["content"]) for message in rl.history.load(name).messages]


def test_a_killed_writer_loses_nothing_it_was_told(server: Server, sample: Callable[..., int], figure: Figure) -> None:
    url, chance, kills, reported = server.emptied(), random.Random(5), sample(4, proof=300, teeth=3), 0
    for _ in range(kills):
        writer = Writer(url, "killed")
        writer.wait_for_more(chance.randrange(1, 20))
        writer.kill()
        there = history(url, "killed")
        assert there == list(range(len(there))), "every step once, in order"
        assert writer.reported == list(range(writer.reported[0], writer.reported[0] + len(writer.reported)))
        assert len(there) > writer.reported[-1], "an acknowledged step is there"
        reported += len(writer.reported)
    figure("G1", f"PostgreSQL: {kills} writers killed at random moments, {reported} steps told, 0 lost, 0 twice")


@pytest.mark.parametrize("point", ["enter", "begun", "written", "committed", "told"])
def test_a_death_at_any_point_of_a_commit_leaves_the_step_whole_or_absent(server: Server, point: str) -> None:
    url = server.emptied()
    writer = Writer(url, "dying", f"commit.{point}:6:kill")
    writer.process.wait()
    writer.kill()
    there = history(url, "dying")
    assert there == list(range(len(there)))
    assert writer.reported == there[: len(writer.reported)] != []
    assert len(there) - len(writer.reported) == (1 if point in ("committed", "told") else 0)


def test_a_crashing_server_loses_nothing_it_acknowledged(
    server: Server, sample: Callable[..., int], figure: Figure
) -> None:
    url, chance, crashes = server.emptied(), random.Random(6), sample(2, proof=500, teeth=2)
    writers = [Writer(url, f"crash-{number}") for number in range(3)]
    try:
        for _ in range(crashes):
            for writer in writers:
                writer.wait_for_more(chance.randrange(1, 12))
            server.crash()
            server.start()
        for writer in writers:
            writer.wait_for_more()
    finally:
        for writer in writers:
            writer.kill()
    for number, writer in enumerate(writers):
        there = history(url, f"crash-{number}")
        assert there == list(range(len(there))), "every step once, in order"
        assert writer.reported == there[: len(writer.reported)]
    reported = sum(len(writer.reported) for writer in writers)
    figure("G1", f"PostgreSQL: {crashes} immediate stops under 3 writers, {reported} steps told, 0 lost, 0 twice")


def test_an_opened_store_goes_on_after_a_restart(server: Server) -> None:
    """A connection that the server has closed meanwhile is noticed before it is used."""
    url = server.emptied()
    with relight.open(url) as rl, rl.session("restart") as s:
        s.append({"role": "user", "content": "before"})
        server.stop()
        with pytest.raises(StoreUnavailable) as refused:
            s.append({"role": "user", "content": "meanwhile"})
        assert "start the server" in refused.value.hints[0]
        with pytest.raises(StoreUnavailable):
            list(rl.sessions.list())
        server.start()
        assert len(list(rl.sessions.list())) == 1
        s.append({"role": "user", "content": "meanwhile"})
        server.stop()
        server.start()
        s.append({"role": "user", "content": "after"})
        assert [message["content"] for message in s.messages] == ["before", "meanwhile", "after"]
        assert rl.history.verify("restart").problems == []


# -- the wire ----------------------------------------------------------------------------------------------------


class Link:
    """One connection through the wire."""

    def __init__(self, client: socket.socket, port: int) -> None:
        self.client = client
        self.backend = socket.create_connection(("127.0.0.1", port))
        for one in (self.client, self.backend):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.cut = ""
        self.late = b""
        self.over = threading.Event()
        """the server has closed its end: it has dealt with whatever it was sent"""

    def close(self) -> None:
        for one in (self.client, self.backend):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class Wire:
    """A proxy on the loopback in front of the server. It can be told to cut a connection around the next commit."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.cut = ""
        """`before`: the next commit does not arrive; `after`: it arrives, and its answer does not; `late`: its sender
        is cut off, and it arrives when `deliver` is called"""
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._links: list[Link] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                link = Link(self._listener.accept()[0], self._server.port)
                self._links.append(link)
                for carry in (self._to_server, self._to_client):
                    threading.Thread(target=carry, args=(link,), daemon=True).start()

    def _to_server(self, link: Link) -> None:
        with suppress(OSError):
            while data := link.client.recv(1 << 16):
                if self.cut and (b"commit_step" in data or b"COMMIT" in data):
                    link.cut, self.cut = self.cut, ""
                    self.cuts += 1
                    if link.cut == "before":
                        break
                    if link.cut == "late":
                        link.late = data
                        link.client.shutdown(socket.SHUT_RDWR)
                        return
                link.backend.sendall(data)
        link.close()

    def _to_client(self, link: Link) -> None:
        with suppress(OSError):
            while data := link.backend.recv(1 << 16):
                if link.cut == "after":
                    break
                if not link.cut:
                    link.client.sendall(data)
        link.over.set()
        link.close()

    def deliver(self) -> None:
        """What was late arrives, and the server deals with it."""
        link = next(link for link in self._links if link.late)
        link.backend.sendall(link.late)
        link.backend.shutdown(socket.SHUT_WR)
        link.late = b""
        assert link.over.wait(30)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for link in self._links:
            link.close()
            link.client.close()
            link.backend.close()


@contextmanager
def wire_to(server: Server) -> Iterator[Wire]:
    wire = Wire(server)
    try:
        yield wire
    finally:
        wire.close()


def test_a_reply_that_is_lost_is_asked_for(server: Server, sample: Callable[..., int], figure: Figure) -> None:
    """The answer to a commit never arrives, or the commit itself: the caller is told the truth, nothing is twice."""
    url, chance, cuts = server.emptied(), random.Random(7), sample(40, proof=2_000, teeth=10)
    saved = failed = 0
    with wire_to(server) as wire, relight.open(server.url(url.rpartition("/")[2], port=wire.port)) as rl:
        with rl.session("wire") as s:
            for number in range(cuts):
                wire.cut = chance.choice(["before", "after"])
                arrives = wire.cut == "after"
                claims = chance.random() < 0.3  # by the longer way, where the head is locked first
                if claims:
                    rl.store._journal.forget_session(s.id)  # type: ignore[attr-defined]
                try:
                    s.append({"role": "user", "content": str(number)})
                    saved += 1
                    assert arrives
                except StoreUnavailable:
                    failed += 1
                    assert not arrives
                    s.append({"role": "user", "content": str(number)})
            assert [message["content"] for message in s.messages] == [str(number) for number in range(cuts)]
        assert wire.cuts == cuts == saved + failed
        assert min(saved, failed) > 0
        assert rl.history.verify("wire").problems == []
    assert history(url, "wire") == list(range(cuts))
    figure("G4", f"PostgreSQL: {cuts} connections cut around COMMIT, {saved} found committed, {failed} not; 0 twice")


def test_a_commit_that_comes_late_is_void(server: Server, sample: Callable[..., int], figure: Figure) -> None:
    """The writer was cut off and told that its step is not there. Then the server gets it after all."""
    url, rounds = server.emptied(), sample(10, proof=300, teeth=5)
    with (
        wire_to(server) as wire,
        relight.open(server.url(url.rpartition("/")[2], port=wire.port)) as rl,
        rl.session("late") as s,
    ):
        for number in range(rounds):
            wire.cut = "late"
            with pytest.raises(StoreUnavailable):
                s.append({"role": "user", "content": "never"})
            wire.deliver()
            assert [step.seq for step in rl.store.steps(s.id)] == list(range(1, number + 2))
            s.append({"role": "user", "content": str(number)})
    assert history(url, "late") == list(range(rounds))
    figure("G4", f"PostgreSQL: {rounds} commits that reached the server after their writers were told: all void")


# -- owners ------------------------------------------------------------------------------------------------------

CLAIMER = """
import sys
from relight.errors import Conflict, LeaseHeld
from relight.system.machine import SystemClock, SystemEntropy
from relight.values.lease import Owner
from relight.values.step import Claim, Draft
from relight.stores.postgres.store import PostgresStore
store = PostgresStore(sys.argv[1], SystemClock())
print("ready", flush=True)
for session in sys.stdin:
    claim = Claim(owner=Owner(id=sys.argv[2]), seconds=30, expected_epoch=0)
    try:
        store.commit(session.strip(), Draft(kind="attempt", body=b"", key=SystemEntropy().key(), claim=claim))
        print("won", flush=True)
    except (Conflict, LeaseHeld) as error:
        print("lost", flush=True)
"""


def test_of_two_processes_that_claim_one_wins(server: Server, sample: Callable[..., int], figure: Figure) -> None:
    url, races = server.emptied(), sample(20, proof=5_000, teeth=10)
    store = PostgresStore(url, SystemClock())
    world = Trial(store, SystemClock(), Hooks())  # type: ignore[arg-type]
    world.entropy = SystemEntropy()  # type: ignore[assignment]
    claimers = [python(CLAIMER, url, f"claimer-{number}") for number in range(2)]
    said = [_lines(claimer) for claimer in claimers]
    assert [next(lines) for lines in said] == ["ready", "ready"]
    for _ in range(races):
        session = _begun(store)
        for claimer in claimers:
            assert claimer.stdin is not None
            claimer.stdin.write(session + "\n")
            claimer.stdin.flush()
        assert sorted(next(lines) for lines in said) == ["lost", "won"]
        assert world.head(session).epoch == 1
    for claimer in claimers:
        claimer.communicate()
    store.close()
    figure("G8", f"PostgreSQL: {races} races of two processes for a claim, one winner each")


def _begun(store: PostgresStore) -> str:
    session = SystemEntropy().session_id()
    store.create(Identity(id=session, created_us=1), Head(session=session))
    return session


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    for line in process.stdout:
        yield line.strip()


ZOMBIE = """
import sys, relight
from relight.errors import LeaseLost
with relight.open(sys.argv[1]) as rl:
    s = rl.session("zombie", lease_seconds=1)
    s.append({"role": "user", "content": "alive"})
    print("alive", flush=True)
    sys.stdin.readline()
    try:
        s.append({"role": "user", "content": "undead"})
        print("wrote", flush=True)
    except LeaseLost:
        print("refused", flush=True)
"""


def test_a_stopped_owner_that_wakes_is_refused(server: Server, figure: Figure) -> None:
    """SIGSTOP past the end of its lease by the server's clock; somebody else goes on; SIGCONT."""
    url = server.emptied()
    zombie = python(ZOMBIE, url, RELIGHT_HINTS="0")
    lines = _lines(zombie)
    assert next(lines) == "alive"
    os.kill(zombie.pid, signal.SIGSTOP)
    with relight.open(url) as rl:
        with pytest.raises(LeaseHeld):
            rl.session("zombie")

        def ended() -> bool:
            record = rl.store.find_named("zombie")
            assert record is not None and record.head is not None and record.head.lease is not None
            return record.head.lease.expired(rl.store.instant())

        wait_for(ended, "the lease ends by the server's clock")
        with rl.session("zombie") as s:
            s.append({"role": "user", "content": "taken over"})
            assert zombie.stdin is not None
            zombie.stdin.write("\n")
            zombie.stdin.flush()
            os.kill(zombie.pid, signal.SIGCONT)
            assert next(lines) == "refused"
            assert [message["content"] for message in s.messages] == ["alive", "taken over"]
    zombie.communicate()
    figure("G8", "PostgreSQL: an owner stopped past its lease is refused at its first write")


class Elsewhere(SystemClock):
    """A machine whose clocks have nothing to do with anybody else's."""

    def __init__(self, seconds: float) -> None:
        self._us = round(seconds * 1e6)

    def now_us(self) -> int:
        return super().now_us() + self._us

    def instant(self) -> Instant:
        return Instant(timeline=f"machine {self._us}", us=super().instant().us + self._us)


@pytest.mark.parametrize("skew", [-3600.0, 8 * 86400.0])
def test_a_lease_is_as_long_as_it_says_whatever_a_worker_thinks_the_time_is(server: Server, skew: float) -> None:
    url = server.emptied()
    stores = [PostgresStore(url, Elsewhere(seconds)) for seconds in (0.0, skew)]
    right, wrong = (Trial(store, SystemClock(), Hooks()) for store in stores)  # type: ignore[arg-type]
    right.entropy = wrong.entropy = SystemEntropy()  # type: ignore[assignment]
    session = _begun(stores[0])
    for act in (
        lambda: wrong.claim(session, "first"),
        lambda: wrong.append(session),  # by the time that was counted on
        lambda: stores[1].renew(session, owner="first", epoch=1),
    ):
        act()
        lease, now = right.head(session).lease, stores[0].instant()
        assert lease is not None
        assert 25 < lease.remaining_seconds(now) <= 30
        with pytest.raises(LeaseHeld):
            right.claim(session, "second")
    for store in stores:
        store.close()


def test_a_refusal_is_decided_on_the_server_not_on_what_is_remembered(server: Server) -> None:
    """Two opened stores: what one remembers is old, and it neither refuses nor lets through by it."""
    url = server.emptied()
    one, two = PostgresStore(url, SystemClock()), PostgresStore(url, SystemClock())
    first, second = (Trial(store, SystemClock(), Hooks()) for store in (one, two))  # type: ignore[arg-type]
    first.entropy = second.entropy = SystemEntropy()  # type: ignore[assignment]
    session = _begun(one)
    first.claim(session, "first")
    first.append(session)
    second.claim(session, "second", gone=True)
    with pytest.raises(LeaseLost):
        first.append(session)
    second.append(session, "second", epoch=2)
    first.claim(session, "first", gone=True)
    with pytest.raises((LeaseLost, Conflict)):
        second.append(session, "second", epoch=2)
    first.append(session, epoch=3)
    second.claim(session, "handed over", gone=True)
    first.append(session, "handed over", epoch=4)  # what is remembered here would refuse it
    assert first.seqs(session) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert one.check() == []
    one.close()
    two.close()
