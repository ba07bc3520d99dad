"""Writers that die, servers that die, answers that get lost: nothing acknowledged is lost, nothing happens twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

import relight
from relight.errors import Conflict, Corrupt, LeaseHeld, LeaseLost, RelightError, StoreFull, StoreUnavailable
from relight.journal.chain import broken_links
from relight.stores.redis.store import RedisStore
from relight.testing.clock import ManualClock
from relight.testing.store_checks.trial import Hooks, Trial
from relight.values.lease import Owner
from relight.values.session import GENESIS
from relight.values.step import Claim
from tests.support.figures import Figure
from tests.support.redis_proxy import Cut, Proxy
from tests.support.redis_server import ALWAYS, RedisServer, redis_program, world

Sample = Callable[..., int]
Start = Callable[..., RedisServer]
pytestmark = pytest.mark.crash
BOUND_SECONDS = 30.0


@pytest.fixture
def start(program: Callable[[str], str]) -> Iterator[Start]:
    """Servers of this test's own."""
    started: list[RedisServer] = []

    def one(settings: dict[str, str] | None = None) -> RedisServer:
        started.append(RedisServer(redis_program(program), settings))
        return started[-1]

    yield one
    for server in started:
        server.stop()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + BOUND_SECONDS
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        pause.wait(0.005)


def whole(store: RedisStore, session: str) -> int:
    """How many steps there are, without gap and in one chain."""
    steps = list(store.steps(session))
    assert [step.seq for step in steps] == list(range(1, len(steps) + 1))
    assert list(broken_links(steps, after=0, digest=GENESIS)) == []
    assert store.check() == []
    return len(steps)


APPEND = """
import os, sys
from tests.support.redis_server import world
one = world(sys.argv[1])
while True:
    print(one.append(sys.argv[2], text="x" * 2000, key=os.urandom(8)).step.seq, flush=True)
"""
CLAIM = """
import os, sys
from tests.support.redis_server import world
from relight.errors import Conflict, LeaseHeld
one = world(sys.argv[1])
print("ready", flush=True)
for line in sys.stdin:
    try:
        one.claim(line.strip(), sys.argv[2], epoch=0)
        print("won", flush=True)
    except (Conflict, LeaseHeld):
        print("lost", flush=True)
"""


def child(code: str, *args: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.guarantee("G1")
def test_a_killed_writer_loses_nothing_it_was_told(start: Start, sample: Sample, figure: Figure) -> None:
    server = start(ALWAYS)
    one = world(server.url)
    session = one.working()
    chance = random.Random(5)
    reported, kills = 2, sample(3, proof=200, teeth=3)
    for _ in range(kills):
        writer = child(APPEND, server.url, session)
        assert writer.stdout is not None
        heard = [writer.stdout.readline() for _ in range(chance.randrange(1, 40))]
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read()  # `communicate` would pass over what is already in its buffer
        assert writer.communicate(timeout=60)[1] == ""
        reported = max([reported, *(int(line) for line in ("".join(heard) + rest).split("\n")[:-1])])
        store = RedisStore(server.url, ManualClock())
        assert whole(store, session) in (reported, reported + 1)  # one may be written before anybody was told
        store.close()
    one.store.close()
    figure("G1", f"Redis: {kills} SIGKILLs of a writer, 0 of {reported} acknowledged steps lost")


@pytest.mark.guarantee("G1")
def test_a_killed_server_that_syncs_loses_nothing_it_acknowledged(start: Start, sample: Sample, figure: Figure) -> None:
    """Four writers while it is killed; then it comes back, and the same stores go on."""
    server = start(ALWAYS)
    stores = [world(server.url) for _ in range(4)]
    sessions = [stores[0].working() for _ in stores]
    reported = [2] * len(stores)
    refusals: list[RelightError] = []
    kills = sample(3, proof=200, teeth=3)
    chance = random.Random(7)

    def write(number: int) -> None:
        try:
            while True:
                key = os.urandom(8)
                reported[number] = stores[number].append(sessions[number], text="x" * 500, key=key).step.seq
        except StoreUnavailable as error:
            refusals.append(error)

    def enough(wanted: int) -> bool:
        return sum(reported) >= wanted

    for _ in range(kills):
        wanted = sum(reported) + chance.randrange(20, 120)
        writers = [threading.Thread(target=write, args=(number,)) for number in range(len(stores))]
        for writer in writers:
            writer.start()
        until(partial(enough, wanted))
        server.kill()
        for writer in writers:
            writer.join(BOUND_SECONDS)
        server.start()
        for number, one in enumerate(stores):
            assert isinstance(one.store, RedisStore)
            assert whole(one.store, sessions[number]) in (reported[number], reported[number] + 1)
    assert len(refusals) == kills * len(stores)
    for one in stores:
        one.store.close()
    figure(
        "G1", f"Redis, appendfsync always: {kills} SIGKILLs of the server, 0 of {sum(reported)} acknowledged steps lost"
    )


@pytest.mark.parametrize("appendfsync", ["everysec", "no"])
def test_a_killed_server_that_does_not_sync_leaves_a_whole_journal(
    start: Start, figure: Figure, appendfsync: str
) -> None:
    """It may have lost the end of it, which the store said; what is there is one chain, and goes on."""
    server = start({"appendonly": "yes", "appendfsync": appendfsync})
    reported = there = 0
    for number in range(3):
        one = world(server.url)
        assert one.store.info.durability == "process-crash"
        session = one.working(60 + 40 * number, id=f"session-{number}")
        server.kill()
        server.start()
        store = RedisStore(server.url, ManualClock())
        reported, there = reported + 62 + 40 * number, there + whole(store, session)
        assert there <= reported
        store.close()
        one.store.close()
    figure(
        "G1",
        f"Redis, appendfsync {appendfsync} (says process-crash): 3 SIGKILLs, {reported - there} of {reported} lost",
    )


def test_a_server_without_a_log_says_so_and_is_found_out(start: Start) -> None:
    """appendonly no: durability none. What a crash took is missed by whoever was told it."""
    server = start()
    one = world(server.url)
    assert one.store.info.durability == "none"
    session = one.working(3)
    server.kill()
    server.start()
    assert one.store.find(session) is None
    with pytest.raises(RelightError):
        one.append(session)
    one.store.close()


def test_acknowledged_steps_that_a_server_lost_are_not_written_over(start: Start) -> None:
    """It comes back with an older state, as one that does not sync may: the writer is told, and nothing is written."""
    server = start()
    one = world(server.url)
    session = one.working(1)
    head = f"relight:s:{{{session}}}:head"
    with server.client() as client:
        older = client.get(head)
        one.append(session)
        client.set(head, older)
        client.hdel(f"relight:s:{{{session}}}:steps", "4", "b4")
        for _ in range(2):
            with pytest.raises(Corrupt, match="step 4 was acknowledged, and the journal ends at 3"):
                one.append(session)
        assert client.get(head) == older
    again = world(server.url)
    assert again.append(session).step.seq == 4  # whoever opens it anew goes on from what is there
    again.store.close()
    one.store.close()


@pytest.mark.guarantee("G4")
@pytest.mark.parametrize("where", ["before", "within", "after"])
def test_a_connection_cut_around_a_write_loses_and_doubles_nothing(
    start: Start, figure: Figure, sample: Sample, where: Cut
) -> None:
    """Through the library: whatever became of the request, every message is there once."""
    server = start(ALWAYS)
    proxy = Proxy(server.directory / "redis.sock")
    rounds = sample(5, proof=200, teeth=4)
    with relight.open(proxy.url) as rl, rl.session("cut") as s:
        s.append({"role": "user", "content": "first"})
        for number in range(rounds):
            message = {"role": "user", "content": f"message {number}"}
            proxy.cut(where)
            try:
                s.append(message)
            except StoreUnavailable:
                s.append(message)
            assert proxy.is_cut
        said = [message["content"] for message in s.messages]
        session = s.id
    assert said == ["first", *(f"message {number}" for number in range(rounds))]
    store = RedisStore(server.url, ManualClock())
    stored = [step for step in store.steps(session) if step.kind == "message"]
    assert len(stored) == rounds + 1
    store.close()
    proxy.close()
    figure("G4", f"Redis: {rounds} connections cut {where} a write, every message once")


@pytest.mark.guarantee("G4")
def test_a_request_that_arrives_late_is_refused(start: Start) -> None:
    """The writer was told "no", and then what it had sent arrives: the head it was planned on is gone."""
    server = start()
    proxy = Proxy(server.directory / "redis.sock")
    one = world(proxy.url)
    session = one.working(1)
    draft = one.draft(owner="first", epoch=1, text="late")
    proxy.cut("late")
    with pytest.raises(StoreUnavailable):
        one.store.commit(session, draft)
    assert one.store.find_commit(session, draft.key, after=3) is None
    assert proxy.deliver().startswith(b"*4\r\n:1\r\n")  # the first check did not hold
    assert one.seqs(session) == [1, 2, 3]
    again = one.store.commit(session, draft)
    assert (again.step.seq, one.seqs(session)) == (4, [1, 2, 3, 4])
    one.store.close()
    proxy.close()


@pytest.mark.guarantee("G8")
def test_of_two_processes_that_claim_one_wins(start: Start, sample: Sample, figure: Figure) -> None:
    server = start()
    one = world(server.url)
    sessions = [one.begin() for _ in range(sample(60, proof=2000, teeth=20))]
    racers = [child(CLAIM, server.url, f"racer-{number}") for number in range(2)]
    wins = [0, 0]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for session in sessions:
        for racer in racers:
            print(session, file=racer.stdin, flush=True)
        said = [racer.stdout.readline().strip() for racer in racers if racer.stdout is not None]
        assert sorted(said) == ["lost", "won"]
        head = one.head(session)
        assert head.lease is not None
        assert (head.lease.owner.id, head.epoch, head.seq) == (f"racer-{said.index('won')}", 1, 1)
        wins[said.index("won")] += 1
    for racer in racers:
        assert (*racer.communicate(timeout=60), racer.returncode) == ("", "", 0)
    assert one.store.check() == []
    one.store.close()
    figure(
        "G8",
        f"Redis: two processes raced for {len(sessions)} sessions ({wins[0]} and {wins[1]}), each won once",
    )


def test_leases_count_in_the_servers_time(start: Start) -> None:
    """The clocks of two machines stand still, years apart: a lease holds until it ends on the server."""
    server = start()
    here, there = (RedisStore(server.url, ManualClock(now_us=us, timeline=str(us))) for us in (10**15, 2 * 10**15))
    one = Trial(here, ManualClock(), Hooks())
    other = Trial(there, ManualClock(), Hooks())
    session = one.begin()

    def claim(trial: Trial, owner: str) -> None:
        epoch = trial.head(session).epoch
        taken = Claim(owner=Owner(id=owner), seconds=0.4, expected_epoch=epoch)
        trial.store.commit(session, trial.draft(kind="attempt", claim=taken))

    def claimed() -> bool:
        try:
            claim(other, "there")
        except LeaseHeld:
            return False
        return True

    began = there.instant().us
    claim(one, "here")
    assert not claimed()
    until(claimed)
    assert there.instant().us - began >= 400_000
    with pytest.raises(LeaseLost):
        one.append(session, "here")
    here.close()
    there.close()


def test_a_full_server_refuses_and_what_was_saved_loads(start: Start) -> None:
    server = start({**ALWAYS, "maxmemory": "6mb", "maxmemory-policy": "noeviction"})
    one = world(server.url)
    session = one.working(1)
    with pytest.raises(StoreFull) as refused:
        while True:
            one.append(session, body=os.urandom(100_000))
    assert refused.value.exit_code == 5
    assert isinstance(one.store, RedisStore)
    saved = whole(one.store, session)
    assert one.head(session).seq == saved
    other = one.store.find(session)
    with server.client() as client:
        client.config_set("maxmemory", 1_000_000)
    for act in (one.begin, lambda: one.append(session), lambda: one.store.label(session, 1, "x", 0)):
        with pytest.raises(StoreFull):
            act()
    assert one.store.find(session) == other
    one.store.delete([session])  # so that there is a way out
    with server.client() as client:
        client.config_set("maxmemory", "6mb")
    one.working(1)
    one.store.close()


def test_a_restarted_server_is_simply_there_again(start: Start) -> None:
    server = start(ALWAYS)
    one = world(server.url)
    session = one.working(2)
    server.kill()
    acts: list[Callable[[], object]] = [
        lambda: one.append(session),
        lambda: one.store.find(session),
        lambda: one.seqs(session),
        lambda: one.store.renew(session, owner="first", epoch=1),
        one.store.changed,
        lambda: one.store.delete([session]),
    ]
    for act in acts:
        with pytest.raises(StoreUnavailable, match="cannot be reached") as refused:
            act()
        assert refused.value.hints
    server.start(appendfsync="everysec")
    assert one.append(session).step.seq == 5
    assert one.store.info.durability == "process-crash"  # it came back with other settings
    one.store.close()


def test_a_forked_child_and_its_parent_both_go_on(start: Start) -> None:
    server = start()
    one = world(server.url)
    session = one.working(1)
    assert isinstance(one.store, RedisStore)
    turn = one.store._journal.session_locks.of(session)
    with turn:  # as if another thread were writing
        pid = os.fork()
        if pid == 0:
            signal.alarm(10)  # a lock that nobody will ever release
            try:
                ok = one.append(session, text="child").step.seq == 4 and one.seqs(session) == [1, 2, 3, 4]
                os._exit(0 if ok else 1)
            except BaseException:
                os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert one.append(session, text="parent").step.seq == 5
    one.store.close()


def test_a_claim_in_between_is_seen(start: Start) -> None:
    """A head that this process remembers is never relied on: somebody else may have moved it."""
    server = start()
    one, other = world(server.url), world(server.url)
    session = one.working(1)
    other.claim(session, "second", gone=True)
    with pytest.raises(LeaseLost):
        one.append(session)
    with pytest.raises(Conflict):
        one.claim(session, "first", epoch=1)
    assert other.append(session, "second", epoch=2).step.seq == 5
    for each in (one, other):
        each.store.close()


def test_the_scripts_are_found_where_the_server_forgot_them(start: Start) -> None:
    server = start()
    one = world(server.url)
    session = one.working(1)
    with server.client() as client:
        client.script_flush()
    assert one.append(session).step.seq == 4
    one.store.close()
