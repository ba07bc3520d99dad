"""What a server promises and refuses, said in our words; damage that is named; keys that never expire by themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import relight
from relight import wiring
from relight.errors import Corrupt, MissingExtra, NewerStore, StoreError, StoreReadOnly, StoreUnavailable, UsageError
from relight.journal.chain import broken_links
from relight.ports.store import Query, Record
from relight.stores.redis.address import parse
from relight.stores.redis.durability import judge
from relight.stores.redis.store import RedisStore
from relight.system.machine import SystemClock
from relight.telemetry import notices
from relight.testing.clock import ManualClock
from relight.testing.store_checks.trial import Hooks, Trial, ids
from relight.values.session import GENESIS
from relight.values.snapshot import Snapshot
from tests.support.redis_server import ALWAYS, RedisServer, redis_program, world

STRICT = {**ALWAYS, "no-appendfsync-on-rewrite": "no", "maxmemory": "0", "maxmemory-policy": "noeviction", "save": ""}


@pytest.fixture(scope="module")
def server(program: Callable[[str], str]) -> Iterator[RedisServer]:
    started = RedisServer(redis_program(program), ALWAYS, loopback=True)
    yield started
    started.stop()


@pytest.fixture(autouse=True)
def _as_it_was(server: RedisServer) -> Iterator[None]:
    yield
    with server.client() as client:
        client.replicaof("NO", "ONE")
        client.execute_command("ACL", "DELUSER", "small")
        client.config_set("appendonly", "yes")
        client.config_set("appendfsync", "always")
        client.flushall()


@pytest.fixture
def one(server: RedisServer) -> Iterator[Trial]:
    opened = world(server.url)
    yield opened
    opened.store.close()


# -- durability ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "level"),
    [
        ({}, "power-loss"),
        ({"save": "3600 1"}, "power-loss"),
        ({"appendfsync": "everysec"}, "process-crash"),
        ({"appendfsync": "no"}, "process-crash"),
        ({"no-appendfsync-on-rewrite": "yes"}, "process-crash"),
        ({"maxmemory-policy": "volatile-lru"}, "process-crash"),
        ({"maxmemory-policy": "allkeys-lru"}, "process-crash"),  # without a bound nothing is thrown away
        ({"maxmemory-policy": "allkeys-lru", "maxmemory": "100"}, "none"),
        ({"appendonly": "no"}, "none"),
        ({"appendonly": "no", "save": "3600 1"}, "none"),
    ],
)
def test_settings_are_judged_by_what_they_keep(changed: dict[str, str], level: str) -> None:
    found = judge({**STRICT, **changed})
    assert found.level == level
    assert bool(found.why) is bool(found.cures) is (level != "power-loss")
    assert judge({}).level == "none"


def test_a_store_says_what_its_server_keeps(server: RedisServer) -> None:
    reported: list[str] = []
    for setting, value, level in (
        ("appendfsync", "always", "power-loss"),
        ("appendfsync", "everysec", "process-crash"),
        ("appendonly", "no", "none"),
    ):
        with server.client() as client:
            client.config_set(setting, value)
        store = RedisStore(server.url, ManualClock(), tell=reported.append)
        assert store.info.durability == level
        store.close()
    assert len(reported) == 2
    assert "durability is process-crash: appendfsync is everysec" in reported[0]
    assert "durability is none: appendonly is off, so that a crash of the server loses everything" in reported[1]


def test_what_is_demanded_and_not_kept_is_refused(server: RedisServer) -> None:
    url = f"{server.url}?durability=power-loss"
    RedisStore(url, ManualClock()).close()
    with server.client() as client:
        client.config_set("appendfsync", "everysec")
    with pytest.raises(StoreUnavailable, match="power-loss is required, and this server has process-crash") as refused:
        RedisStore(url, ManualClock())
    assert refused.value.hints == ("redis-cli CONFIG SET appendfsync always",)
    RedisStore(url.replace("power-loss", "process-crash"), ManualClock()).close()


def small_user(server: RedisServer, *rights: str) -> str:
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "small", "on", ">fake-password", "~*", "+@all", *rights)
    return f"redis://small:fake-password@127.0.0.1:{server.port}/0"


def test_settings_that_may_not_be_read_promise_nothing(server: RedisServer) -> None:
    reported: list[str] = []
    store = RedisStore(small_user(server, "-config"), ManualClock(), tell=reported.append)
    assert store.info.durability == "none"
    assert "CONFIG is forbidden" in reported[0]
    assert "fake-password" not in reported[0] + store.place
    store.close()


@pytest.mark.parametrize("forbidden", ["-bgrewriteaof", "-info", "-config"])
def test_files_that_may_not_be_written_anew_are_spoken_of(server: RedisServer, forbidden: str) -> None:
    reported: list[str] = []
    clock = ManualClock()
    store = RedisStore(small_user(server, forbidden), clock, leases=clock, tell=reported.append)
    session = Trial(store, clock, Hooks()).begin()
    store.delete([session])
    assert store.find(session) is None
    assert "their bytes stay in the server's files until it rewrites those" in reported[-1]
    store.close()


def test_a_dump_is_made_anew_too(program: Callable[[str], str]) -> None:
    """A server that makes dumps and keeps no log: what was deleted is in no dump either."""
    dumping = RedisServer(redis_program(program))
    try:
        with dumping.client() as client:
            client.config_set("save", "3600 1")
            one = world(dumping.url)
            session = one.working(1, task="canary-4e1b")
            client.save()
        assert b"canary-4e1b" in dumping.bytes_at_rest()
        one.store.delete([session])
        assert b"canary-4e1b" not in dumping.bytes_at_rest()
        one.store.close()
    finally:
        dumping.stop()


# -- refusals ------------------------------------------------------------------------------------------------------


def test_every_refusal_of_a_server_is_one_of_ours(server: RedisServer) -> None:
    """Wrong password, nobody there, a replica: exit 5, a hint, and no password in any of it."""
    small_user(server)
    port = server.port
    addresses = {
        f"redis://small:wrong-secret@127.0.0.1:{port}/0": "user or password is refused",
        "redis://x:wrong-secret@127.0.0.1:1/0": "cannot be reached",
        "unix:///nowhere/redis.sock": "cannot be reached",
        f"redis://127.0.0.1:{port}/9999": "refuses",
        "redis://127.0.0.1:no/0": "Port could not be cast",
    }
    for url, said in addresses.items():
        with pytest.raises(StoreUnavailable, match=said) as refused:
            RedisStore(url, ManualClock())
        assert refused.value.exit_code == 5
        assert "wrong-secret" not in refused.value.message


def test_a_replica_can_be_read_and_not_written(server: RedisServer, one: Trial) -> None:
    session = one.working(2)
    with server.client() as client:
        client.replicaof("127.0.0.1", "1")
    assert one.seqs(session) == [1, 2, 3, 4]
    for act in (lambda: one.append(session), one.begin, lambda: one.store.delete([session])):
        with pytest.raises(StoreReadOnly):
            act()
    with server.client() as client:
        client.replicaof("NO", "ONE")
    assert one.append(session).step.seq == 5


def test_a_store_of_a_newer_relight_is_left_alone(server: RedisServer) -> None:
    with server.client() as client:
        client.set("relight:schema", 2)
    with pytest.raises(NewerStore):
        RedisStore(server.url, ManualClock())


def test_a_closed_store_says_so(server: RedisServer) -> None:
    one = world(server.url)
    one.store.close()
    with pytest.raises(StoreUnavailable, match="the store was closed"):
        one.begin()


def test_addresses_are_taken_apart() -> None:
    found = parse("rediss://u:p%40ss@host:7000/2?prefix=team&durability=power-loss&ssl_cert_reqs=none")
    assert (found.driver, found.prefix, found.demanded) == (
        "rediss://u:p%40ss@host:7000/2?ssl_cert_reqs=none",
        "team",
        "power-loss",
    )
    assert found.shown == "rediss://u:***@host:7000/2"
    for wrong in ("redis://h?prefix={x}", "redis://h?prefix=", "redis://h?durability=much", "http://h"):
        with pytest.raises(UsageError):
            parse(wrong)


# -- damage --------------------------------------------------------------------------------------------------------


def damaged(server: RedisServer, session: str, name: str) -> None:
    """One byte of a value is another one."""
    with server.client() as client:
        key = f"relight:s:{{{session}}}:{name}"
        if name in ("identity", "head"):
            client.set(key, flipped(client.get(key)))
        elif name in ("3", "b3"):
            steps = f"relight:s:{{{session}}}:steps"
            client.hset(steps, name, flipped(client.hget(steps, name)))
        elif name == "labels":
            client.lset(key, 0, flipped(client.lindex(key, 0)))
        elif name == "snapshots":
            row, pool = next(iter(client.hgetall(key).items()))
            client.hdel(key, row)
            client.hset(key, flipped(row), pool)
        else:
            client.delete(key)


def flipped(value: Any) -> bytes:
    assert isinstance(value, bytes)
    return value[:-1] + bytes([value[-1] ^ 1])


@pytest.mark.guarantee("G5")
@pytest.mark.parametrize("name", ["identity", "head", "labels", "snapshots", "indexes", "facts"])
def test_a_damaged_record_is_found(server: RedisServer, one: Trial, name: str) -> None:
    one.store.add_segment("p", "one")
    session = one.working(2, name="hurt", labels={"a": "b"})
    one.append(session, label="x", snapshots=(Snapshot(id="s1", root="r", pool="p", segments=("one",)),))
    assert one.store.check() == []
    damaged(server, session, name)
    found = one.store.check()
    assert len(found) == 1
    assert session in found[0].what or name == "snapshots"
    if name == "identity":
        with pytest.raises(Corrupt):
            one.store.find(session)
        listed = one.store.list_sessions(Query())
        assert [(record.identity.id, record.head) for record in listed] == [(session, None)]
    if name == "head":
        assert one.record(session).head is None
        assert one.seqs(session) == [1, 2, 3, 4, 5]


@pytest.mark.guarantee("G5")
@pytest.mark.parametrize("name", ["3", "b3"])
def test_a_damaged_step_is_named(server: RedisServer, one: Trial, name: str) -> None:
    session = one.working(4)
    damaged(server, session, name)
    breaks = list(broken_links(one.store.steps(session), after=0, digest=GENESIS))
    assert [broken.seq for broken in breaks] == [3]
    with server.client() as client:
        client.hdel(f"relight:s:{{{session}}}:steps", name)
    breaks = list(broken_links(one.store.steps(session), after=0, digest=GENESIS))
    assert [broken.seq for broken in breaks] == [3]
    assert one.store.find_commit(session, b"another!", after=3) is None
    if name == "3":
        with pytest.raises(Corrupt, match="it is unknown what was committed"):
            one.store.find_commit(session, b"another!", after=2)


def test_a_label_of_another_session_is_found(server: RedisServer, one: Trial) -> None:
    first, second = one.working(1), one.working(1)
    one.store.label(first, 2, "x", 0)
    with server.client() as client:
        row = client.lindex(f"relight:s:{{{first}}}:labels", 0)
        client.rpush(f"relight:s:{{{second}}}:labels", row)
    assert [damage.what.partition(":")[0] for damage in one.store.check()] == [second]
    with pytest.raises(Corrupt):
        one.store.find_label(second, "x")


def test_a_session_out_of_its_indexes_is_put_back(server: RedisServer, one: Trial) -> None:
    """A head that is rebuilt brings every index back."""
    session = one.working(2, name="lost", labels={"a": "b"}, key="k")
    head = one.head(session)
    with server.client() as client:
        for key in client.scan_iter("relight:by:*"):
            client.delete(key)
    assert one.store.list_sessions(Query(key="k")) == []
    assert len(one.store.check()) == 2
    one.store.rebuild_head(msgspec.structs.replace(head, said="again"), instead_of=head.digest)
    assert ids(one.store.list_sessions(Query(key="k", labels={"a": "b"}))) == [session]
    assert one.store.check() == []


def test_a_key_of_another_kind_is_damage_not_a_riddle(server: RedisServer, one: Trial) -> None:
    session = one.working(1)
    with server.client() as client:
        client.delete(f"relight:s:{{{session}}}:steps")
        client.set(f"relight:s:{{{session}}}:steps", "x")
    with pytest.raises(Corrupt, match="another kind of value"):
        one.seqs(session)
    with pytest.raises(Corrupt):
        one.append(session)
    other = one.working(1)
    with server.client() as client:
        client.set(f"relight:s:{{{other}}}:labels", "x")
    head = one.head(other)
    with pytest.raises(Corrupt):
        one.append(other, label="green")
    assert one.head(other) == head  # not committed, as it says


# -- keys ----------------------------------------------------------------------------------------------------------


def everything_done(one: Trial) -> None:
    one.store.add_segment("p", "one")
    session = one.working(3, name="first", labels={"a": "b"}, key="k")
    taken = Snapshot(id="s1", root="r", pool="p", segments=("one",))
    one.append(session, label="x", snapshots=(taken,))
    one.store.label(session, 2, "y", 0)
    one.change(session, "completed")
    one.fork(session)
    record = one.record(session)
    assert record.head is not None
    identity = msgspec.structs.replace(record.identity, id="e1sewhere", name="moved")
    head = msgspec.structs.replace(record.head, session="e1sewhere", lease=None)
    steps = [(msgspec.structs.replace(step, session="e1sewhere"), (taken,)) for step in one.steps(session)]
    one.store.import_sessions([Record(identity=identity, head=head)], steps, [("e1sewhere", 1, "z")])
    one.store.list_sessions(Query(text="first", statuses=frozenset({"completed"})))
    one.store.find_prefixed(session[:4], 3)
    one.store.check()


def test_nothing_expires_and_nothing_asks_for_all_keys(server: RedisServer, one: Trial) -> None:
    """Retention is decided by a sweep alone; KEYS would stop a server for everybody."""
    with server.client() as client:
        client.config_resetstat()
        everything_done(one)
        ends = {key: client.ttl(key) for key in client.scan_iter("*")}
        used = {name.removeprefix("cmdstat_") for name in client.info("commandstats")}
    assert len(ends) > 20
    assert set(ends.values()) == {-1}
    assert not used & {"keys", "flushall", "flushdb", "setex", "getex"}


def test_a_deleted_session_leaves_no_key(server: RedisServer, one: Trial) -> None:
    everything_done(one)
    one.store.delete([record.identity.id for record in one.store.list_sessions(Query())])
    one.store.remove_segments("p", ["one"])
    with server.client() as client:
        left = {key.decode() for key in client.scan_iter("*")}
        size = client.get("relight:bytes")
    assert left == {"relight:schema", "relight:changes", "relight:bytes"}
    assert (size, one.store.list_pools()) == (b"0", frozenset())


def test_stores_with_different_prefixes_do_not_see_one_another(server: RedisServer, one: Trial) -> None:
    session = one.working(1, name="mine")
    other = world(f"{server.url}?prefix=other")
    assert other.store.find(session) is None
    other.begin(id=session, name="mine")
    other.store.delete([session])
    assert one.seqs(session) == [1, 2, 3]
    other.store.close()


def test_a_page_costs_the_same_among_many_sessions(server: RedisServer, one: Trial) -> None:
    """Counted in records read: by a rare label, by status, by key, and the newest of all."""

    def records_read(query: Query) -> int:
        with server.client() as client:
            client.config_resetstat()
            before = client.info("stats")
            assert one.store.list_sessions(query)
            after = client.info("stats")
        keys = [info["keyspace_hits"] + info["keyspace_misses"] for info in (before, after)]
        return int(keys[1] - keys[0])

    queries = [
        Query(labels={"team": "rare"}),
        Query(key="rare", statuses=frozenset({"queued"})),
        Query(statuses=frozenset({"failed"})),
        Query(limit=5),
    ]
    costs: list[list[int]] = []
    for many in (70, 400):
        for number in range(many):
            one.begin(labels={"team": "common"}, key=f"k{number % 3}")
        one.begin(labels={"team": "rare"}, key="rare", status="queued")
        one.begin(status="failed")
        costs.append([records_read(query) for query in queries])
    assert all(later <= sooner + 4 for sooner, later in zip(*costs, strict=True))


# -- the library on it ---------------------------------------------------------------------------------------------


def test_the_library_opens_it_by_its_address(
    server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A session with files: the journal on the server, the content in a directory of this machine."""
    monkeypatch.setenv("RELIGHT_BLOBS", str(tmp_path / "content"))
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one")
    with relight.open(server.url) as rl:
        with rl.session("named", workspace=str(work)) as s:
            s.append({"role": "user", "content": "Hello"})
            (work / "a.txt").write_text("two")
            s.append({"role": "assistant", "content": "Hi"})
        assert [info.name for info in rl.sessions.list()] == ["named"]
    assert list((tmp_path / "content").rglob("*"))
    with relight.open(server.url) as rl, rl.session("named") as s:
        assert [message["content"] for message in s.messages] == ["Hello", "Hi"]
    assert "durability" not in caplog.text
    monkeypatch.delenv("RELIGHT_BLOBS")
    store = wiring.open_store(server.url, SystemClock())
    assert store.blobs is not None
    assert store.blobs.name.startswith("redis-")
    store.close()


def test_opening_to_write_tells_a_weak_server_once(
    server: RedisServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "_PRINTED", {os.getpid()})
    with server.client() as client:
        client.config_set("appendfsync", "everysec")
    for create, lines in ((True, 1), (False, 0)):
        wiring.open_store(server.url, SystemClock(), create=create).close()
        assert capsys.readouterr().err.count("durability is process-crash") == lines


def test_doctor_says_how_durable_it_is(server: RedisServer) -> None:
    command = [sys.executable, "-m", "relight.cli", "--store", f"redis://127.0.0.1:{server.port}/0", "doctor"]
    strong = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "an acknowledged step survives a crash and a power cut" in strong.stdout
    with server.client() as client:
        client.config_set("appendonly", "no")
    weak = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "none: appendonly is off" in weak.stdout
    assert "redis-cli CONFIG SET appendonly yes" in weak.stdout


def test_a_missing_driver_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("relight.stores.redis")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(MissingExtra) as refused:
        wiring.open_store("redis://127.0.0.1:1/0", SystemClock())
    assert refused.value.hints == ("pip install 'relight[redis]'",)


def test_a_cluster_is_refused(program: Callable[[str], str]) -> None:
    cluster = RedisServer(redis_program(program), {"cluster-enabled": "yes"}, loopback=True)
    try:
        with pytest.raises(StoreError, match="a Redis Cluster cannot be a store"):
            RedisStore(cluster.url, ManualClock())
    finally:
        cluster.stop()
