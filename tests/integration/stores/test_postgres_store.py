"""The PostgreSQL store beyond the kit: as the memory store in every respect, damage named, any text, clear refusals,
and nothing kept in a connection."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import psycopg
import pytest
from hypothesis import settings
from hypothesis.stateful import initialize, run_state_machine_as_test

import relight
from relight.errors import Corrupt, SnapshotSwept, StoreReadOnly, StoreUnavailable, UnknownStore
from relight.journal.codec import encode_changes
from relight.ports.store import Query, Record, Store
from relight.stores.memory import MemoryStore
from relight.stores.postgres.store import PostgresStore
from relight.system.machine import SystemClock
from relight.testing.clock import ManualClock
from relight.testing.store_checks.trial import Hooks, Trial
from relight.values.session import Identity
from relight.values.snapshot import Snapshot
from relight.values.step import Changes
from tests.integration.stores.test_against_memory import PHASES, BothStores
from tests.support.figures import Figure
from tests.support.postgres_server import Server, name_of, running

ODD = ["", "a\0b", "\0", "\ud800", "x\udfff\0", "\ufdd0", "ümläut", "%_\\'\"", "\U0010ffff", "long " * 900]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(fsync="off") as one:  # what survives a crash is tested elsewhere
        yield one


@pytest.fixture
def world(server: Server) -> Iterator[Trial]:
    clock = ManualClock()
    store = PostgresStore(server.emptied(), clock, instead=clock.instant)
    yield Trial(store, clock, Hooks())
    store.close()


@pytest.fixture
def tamper(server: Server, world: Trial) -> Callable[..., None]:
    """Change rows behind the store's back."""

    def change(statement: str, *values: object) -> None:
        server.execute(statement, *values, database=name_of(world.store.url))

    return change


# -- as the memory store -----------------------------------------------------------------------------------------


def test_it_answers_as_the_memory_store_whatever_is_done(server: Server, sample: Callable[..., int]) -> None:
    class Both(BothStores):
        @initialize()
        def open_both(self) -> None:
            server.emptied()
            super().open_both()

        def reopened(self) -> Store:
            return PostgresStore(server._used, self.clock, instead=self.clock.instant)

    examples = sample(5, proof=400, teeth=8)
    run_state_machine_as_test(
        Both,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            phases=PHASES,
            suppress_health_check=list(hypothesis.HealthCheck),
        ),
    )


def identities(records: list[Record]) -> list[Identity]:
    return [record.identity for record in records]


def test_any_text_comes_back_and_sorts_as_in_memory(world: Trial) -> None:
    model = Trial(MemoryStore(world.clock), world.clock, Hooks())
    for number, text in enumerate(ODD):
        for one in (model, world):
            one.clock.set_wall(number // 3)
            session = f"{text}-{number}"
            fields: dict[str, Any] = {
                "id": session,
                "name": session,
                "key": text,
                "labels": {text: text},
                "task": text,
                "agent": text,
            }
            one.begin(**{**fields, "created_us": number // 3})
            one.claim(session)
            one.append(session, label=text or None)
    for query in (Query(), *(Query(key=text, labels={text: text}, text=text) for text in ODD)):
        assert identities(world.store.list_sessions(query)) == identities(model.store.list_sessions(query))
    for number, text in enumerate(ODD):
        session = f"{text}-{number}"
        named, prefixed = world.store.find_named(session), world.store.find_prefixed(text[:1], 20)
        assert named is not None and named.identity.id == session
        assert identities(prefixed) == identities(model.store.find_prefixed(text[:1], 20))
        assert world.store.find_label(session, text) == model.store.find_label(session, text)
    assert world.store.check() == []


# -- one exchange a step -----------------------------------------------------------------------------------------


def test_a_step_is_one_exchange_with_the_server(world: Trial) -> None:
    session = world.working()
    journal = world.store._journal  # type: ignore[attr-defined]
    journal.round_trips = [0, 0]
    for number in range(20):
        world.append(session, label="best" if number % 3 else None)
    world.change(session, "waiting")
    world.store.renew(session, owner="first", epoch=1)
    world.append(session)
    assert journal.round_trips == [22, 0], "one each, also with a label, a change of status, and after a heartbeat"


def test_nothing_is_kept_in_a_connection(world: Trial) -> None:
    """So that a pooler may give every transaction another one."""
    session = world.working(5)
    list(world.store.steps(session))
    world.store.list_sessions(Query(text="a"))
    world.store.changed()
    world.store.check()
    before = world.store._connections._idle[:]  # type: ignore[attr-defined]
    assert before
    for connection in before:
        for view in (
            "pg_prepared_statements",
            "pg_listening_channels()",
            "pg_cursors WHERE name <> ''",
            "pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
        ):
            assert connection.execute(f"SELECT count(*) FROM {view}").fetchone() == (0,), view
        for setting in ("synchronous_commit", "lock_timeout", "search_path"):
            found = connection.execute(
                "SELECT setting = reset_val FROM pg_settings WHERE name = %s", (setting,)
            ).fetchone()
            assert found == (True,), setting


def test_a_forked_child_uses_connections_of_its_own(world: Trial) -> None:
    session = world.working(1)
    idle = world.store._connections._idle  # type: ignore[attr-defined]
    parents = {connection.info.backend_pid for connection in idle}
    child = os.fork()
    if child == 0:
        try:
            world.append(session, text="child")
            own = {connection.info.backend_pid for connection in world.store._connections._idle}  # type: ignore[attr-defined]
            os._exit(0 if own and not own & parents else 2)
        except BaseException:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    world.append(session, text="parent")
    assert world.seqs(session) == [1, 2, 3, 4, 5]
    assert world.store.check() == []


# -- damage ------------------------------------------------------------------------------------------------------

DAMAGE = [
    ("UPDATE relight.steps SET body = 'x' WHERE seq = 3", "step"),
    ("UPDATE relight.steps SET digest = 'x' WHERE seq = 3", "step"),
    ("UPDATE relight.steps SET kind = 'nothing' WHERE seq = 3", "step"),
    ("UPDATE relight.steps SET turns = turns + 1 WHERE seq = 3", "step"),
    ("DELETE FROM relight.steps WHERE seq = 3", "step"),
    ("UPDATE relight.heads SET record = set_byte(record, 30, 1 + get_byte(record, 30) % 200)", "head"),
    ("DELETE FROM relight.heads", "head"),
    ("UPDATE relight.sessions SET status = 'completed'", "column"),
    ("UPDATE relight.sessions SET key = 'other'", "column"),
    ("UPDATE relight.sessions SET record = 'x'", "identity"),
    ("UPDATE relight.checkpoint_labels SET seq = seq + 1", "label"),
    ("UPDATE relight.session_labels SET v = 'other'", "listed"),
    ("UPDATE relight.snapshots SET id = 'other'", "snapshot"),
    ("UPDATE relight.segments SET name = 'other'", "segment"),
    ("DELETE FROM relight.sessions", "orphan"),
]


@pytest.mark.parametrize(("statement", "what"), DAMAGE)
def test_damage_is_named(world: Trial, tamper: Callable[..., None], statement: str, what: str) -> None:
    session = world.working(2, labels={"team": "core"})
    world.store.add_segment("p", "one")
    taken = (Snapshot(id="s", root="r", pool="p", segments=("one",)),)
    world.append(session, label="best", snapshots=taken, body=encode_changes(Changes(snapshot={"r": "s"})))
    with relight.open(world.store) as rl:
        assert rl.history.verify().ok
        tamper(statement)
        report = rl.history.verify()
        assert not report.ok, what
        if what == "head":
            with pytest.raises(Corrupt):
                world.append(session)
        if what == "identity":
            with pytest.raises(Corrupt):
                world.store.find(session)
        if what == "snapshot":
            with pytest.raises(Corrupt):
                world.store.list_snapshots("p")
        if what == "step":
            assert any("3" in problem.what or problem.seq == 3 for problem in report.problems)


def test_a_head_that_was_damaged_is_not_written_over(world: Trial, tamper: Callable[..., None]) -> None:
    """Though this store remembers what it was: the step would hide the damage."""
    session = world.working(2)
    tamper("UPDATE relight.heads SET record = 'nothing'")
    with pytest.raises(Corrupt):
        world.append(session)
    assert world.seqs(session) == [1, 2, 3, 4]


def test_deletion_leaves_no_row(world: Trial, server: Server, figure: Figure) -> None:
    kept = world.working(2, name="kept")
    canary = "canary-51f0"
    session = world.working(20, name=canary, task=canary, key=canary, labels={canary: canary})
    world.store.add_segment("p", "one")
    taken = (Snapshot(id=canary, root=canary, pool="p", segments=("one",)),)
    world.append(session, text=canary * 900, label=canary, said=canary, snapshots=taken)
    world.store.delete([session])
    for table in ("sessions", "heads", "steps", "session_labels", "checkpoint_labels", "snapshots"):
        rows = server.execute(f"SELECT t::text FROM relight.{table} AS t", database=name_of(world.store.url))
        assert canary.encode().hex() not in repr(rows), table
        assert len(rows) == {"sessions": 1, "heads": 1, "steps": 4}.get(table, 0)
    assert world.seqs(kept) == [1, 2, 3, 4]
    figure("G18", "PostgreSQL: a deleted session has no row in any table")


def commit_racing(
    world: Trial, session: str, taken: tuple[Snapshot, ...], start: threading.Barrier, refused: list[bool]
) -> None:
    start.wait()
    try:
        world.append(session, snapshots=taken)
    except SnapshotSwept:
        refused.append(True)


def test_a_sweep_and_a_commit_of_the_same_segment_never_both_win(world: Trial, sample: Callable[..., int]) -> None:
    session = world.working()
    for number in range(sample(30, proof=2_000, teeth=30)):
        segment = f"segment-{number}"
        world.store.add_segment("p", segment)
        taken = (Snapshot(id=segment, root="r", pool="p", segments=(segment,)),)
        start = threading.Barrier(2)
        refused: list[bool] = []

        writer = threading.Thread(target=commit_racing, args=(world, session, taken, start, refused))
        writer.start()
        start.wait()
        world.store.remove_segments("p", [segment])
        seen = segment in world.store.list_snapshots("p")
        writer.join()
        named = segment in world.store.list_snapshots("p")
        assert named != bool(refused)
        assert seen == named, "after its row went, no step can name it any more"


# -- refusals ----------------------------------------------------------------------------------------------------


def test_a_password_is_never_shown() -> None:
    url = "postgresql://relight:hunter2@127.0.0.1:1/x"
    with pytest.raises(StoreUnavailable) as refused:
        PostgresStore(url, SystemClock())
    reported = [refused.value.message, *refused.value.evidence, *refused.value.hints]
    assert "hunter2" not in " ".join(reported)
    assert "start the server" in refused.value.hints[0]
    with pytest.raises(UnknownStore) as unknown:
        relight.open("postgresql://u:hunter2@h/x?no_such_option=1")
    assert "hunter2" not in str(unknown.value.message) + repr(unknown.value.hints)


def test_who_is_not_let_in_is_told_what_to_do() -> None:
    """Wrong password, no such database, no connection left; and no right to make a table."""
    with running(own=True, fsync="off") as server:
        server.execute("CREATE ROLE guarded LOGIN PASSWORD 'right'; CREATE ROLE crowded LOGIN CONNECTION LIMIT 0")
        server.execute("CREATE ROLE poor LOGIN")
        rules = server.data / "pg_hba.conf"
        rules.write_text("host all guarded 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
        server.stop()
        server.start()
        expected = {
            "guarded:wrong-51@127.0.0.1:{port}/postgres": "check user and password",
            "relight@127.0.0.1:{port}/nowhere": "createdb",
            "crowded@127.0.0.1:{port}/postgres": "pooler",
            "poor@127.0.0.1:{port}/postgres": "grant it on the server",
        }
        for address, hint in expected.items():
            error = refusal(address.format(port=server.port))
            assert error is not None and hint in error.hints[0], address
            assert "wrong-51" not in " ".join((error.message, *error.evidence, *error.hints))


def refusal(address: str) -> StoreUnavailable | None:
    try:
        PostgresStore(f"postgresql://{address}", SystemClock()).close()
    except StoreUnavailable as error:
        return error
    return None


def test_a_replica_is_read_and_not_written(server: Server) -> None:
    name = name_of(server.emptied())
    clock = ManualClock()
    with_one = Trial(PostgresStore(server.url(name), clock, instead=clock.instant), clock, Hooks())
    session = with_one.working(1)
    server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    try:
        store = PostgresStore(server.url(name), clock, instead=clock.instant)
        assert store.info.read_only
        assert len(list(store.steps(session))) == 3
        assert store.check() == []
        with pytest.raises(StoreReadOnly) as refused:
            Trial(store, clock, Hooks()).append(session)
        assert "primary" in refused.value.hints[0]
        store.close()
    finally:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only".encode())
        with_one.store.close()


def test_what_survives_is_what_the_server_is_set_to(server: Server) -> None:
    url = server.emptied()
    store = PostgresStore(url, SystemClock())
    assert (store.info.durability, "fsync" in store.info.durability_reason) == ("process-crash", True)
    store.close()
    server.execute("ALTER TABLE relight.segments SET UNLOGGED", database=name_of(url))
    store = PostgresStore(url, SystemClock())
    assert store.info.durability == "none"
    store.close()
    server.execute("ALTER TABLE relight.segments SET LOGGED", database=name_of(url))


def test_a_commit_is_synced_though_the_server_would_not_by_default(server: Server) -> None:
    """Asked inside the transaction, by a trigger that notes what holds there."""
    url, clock = server.emptied(), ManualClock()
    name = name_of(url)
    server.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    server.execute(
        "CREATE TABLE noted (s text); CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO noted VALUES (current_setting('synchronous_commit')); RETURN new; END $$; "
        "CREATE TRIGGER note BEFORE INSERT OR UPDATE ON relight.heads FOR EACH ROW EXECUTE FUNCTION note()",
        database=name,
    )
    try:
        world = Trial(PostgresStore(url, clock, instead=clock.instant), clock, Hooks())
        session = world.working(3)
        world.store.renew(session, owner="first", epoch=1)
        world.store.close()
        noted = server.execute("SELECT DISTINCT s FROM noted", database=name)
        assert noted == [("on",)]
    finally:
        server.execute("DROP TRIGGER note ON relight.heads; DROP FUNCTION note; DROP TABLE noted", database=name)
        server.execute(f"ALTER DATABASE {name} RESET synchronous_commit")


@pytest.mark.parametrize("missing", ["driver", "what it stands on"])
def test_without_its_driver_the_command_that_installs_it_is_told(missing: str) -> None:
    block = "sys.modules['psycopg'] = None; " if missing == "driver" else ""
    script = f"import sys; {block}from relight.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", script, "--store", "postgresql://u:hunter2@h/x", "list"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **({} if block else {"PSYCOPG_IMPL": "none"})},
    )
    assert done.returncode == 2
    assert "pip install 'relight[postgres]'" in done.stderr
    assert "hunter2" not in done.stderr


def test_the_command_line_and_the_library_work_on_it(server: Server, tmp_path: Path) -> None:
    """`list` before there is anything makes nothing; then a session with files, found again by another process."""
    url = server.database()
    environment = {
        **os.environ,
        "RELIGHT_STORE": url,
        "HOME": str(tmp_path),
        "RELIGHT_HINTS": "0",
        "RELIGHT_NATIVE": "0",
    }

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "relight.cli", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)

    assert run("list").returncode == 0
    assert server.execute("SELECT to_regnamespace('relight')", database=name_of(url)) == [(None,)]
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import relight, pathlib\n"
        "with relight.open() as rl, rl.session('shop', workspace='files') as s:\n"
        "    pathlib.Path('files/a.txt').write_text('one')\n"
        "    s.append({'role': 'user', 'content': 'first'})\n"
        "    pathlib.Path('files/a.txt').write_text('two')\n"
        "    s.append({'role': 'user', 'content': 'second'})\n"
    )
    (tmp_path / "files").mkdir()
    assert run("run", "--name", "shop", "--", sys.executable, "agent.py").returncode == 0
    listed = run("list", "--all")
    assert "shop" in listed.stdout
    assert "second" in run("tail", "shop").stdout
    assert "!\tdurable\tprocess-crash: the server runs with fsync off" in run("doctor").stdout
    rows = run("checkpoints", "shop").stdout.splitlines()
    first = next(row.split("\t")[0] for row in rows if "sha256:" in row)
    restored = run("restore", first)
    assert restored.returncode == 0, restored.stderr
    assert (tmp_path / "files" / "a.txt").read_text() == "one"
    assert list((tmp_path / ".local" / "share" / "relight").glob("pg-*.blobs/*/*.seg"))
    assert run("rm", "shop", "--yes").returncode == 0
