"""PostgreSQL in trouble: each kind is told with a code and a cure, exit 5, and nothing is lost by it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

import relight
from tests.integration.acceptance.server_failures import SECRET, Expected, by_name, opened_in_trouble, survives, typed
from tests.support.postgres_server import Server, free_port, name_of, running

SLOTS = 20


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(own=True, fsync="off", max_connections=str(SLOTS)) as one:
        one.execute(f"CREATE ROLE guarded LOGIN PASSWORD '{SECRET[::-1]}' SUPERUSER")
        rules = one.data / "pg_hba.conf"
        rules.write_text("host all guarded 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
        one.execute("SELECT pg_reload_conf()")
        yield one


@contextmanager
def stopped(server: Server, url: str) -> Iterator[None]:
    server.stop()
    try:
        yield
    finally:
        server.start()


@contextmanager
def changed(server: Server, url: str, there: str, back: str, *, anew: bool = False) -> Iterator[None]:
    """Something is other than it was. `anew`: connections that stand already are cut, to be made under it."""
    server.execute(there, database=name_of(url))
    if anew:
        cut(server, url)
    try:
        yield
    finally:
        with psycopg.connect(server.url(name_of(url)), autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(back.encode())
        if anew:
            cut(server, url)


def cut(server: Server, url: str) -> None:
    """Waits until they have ended, so that their other ends can see it."""
    server.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
        name_of(url),
    )


@contextmanager
def crowded(server: Server, url: str) -> Iterator[None]:
    """Everybody else is there already."""
    with ExitStack() as stack:
        others = [stack.enter_context(psycopg.connect(server.url())) for _ in range(SLOTS - 4)]
        cut(server, url)
        while len(others) <= SLOTS:
            try:
                others.append(stack.enter_context(psycopg.connect(server.url())))
            except psycopg.OperationalError:
                break
        yield


class Case(NamedTuple):
    """A trouble, and what is told in it."""

    trouble: Callable[[Server, str], AbstractContextManager[None]]
    expected: Expected


RENAME = "ALTER TABLE relight.{} RENAME TO {}"
FULL = """CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON relight.heads FOR EACH ROW EXECUTE FUNCTION full_disk()"""
CASES = {
    "stopped": Case(stopped, Expected("RL-5001", "start the server")),
    "missing-table": Case(
        lambda server, url: changed(
            server, url, RENAME.format("steps", "stolen"), "ALTER TABLE relight.stolen RENAME TO steps"
        ),
        Expected("RL-5002", "backup"),
    ),
    "newer-schema": Case(
        lambda server, url: changed(
            server,
            url,
            "UPDATE relight.store SET version = version + 90",
            "UPDATE relight.store SET version = version - 90",
        ),
        Expected("RL-5004", "upgrade", open_goes_on=True),
    ),
    "read-only": Case(
        lambda server, url: changed(
            server,
            url,
            f"ALTER DATABASE {name_of(url)} SET default_transaction_read_only = on",
            f"ALTER DATABASE {name_of(url)} RESET default_transaction_read_only",
            anew=True,
        ),
        Expected("RL-5006", "primary", reading=True),
    ),
    "too-many-connections": Case(crowded, Expected("RL-5001", "max_connections")),
    "disk-full": Case(
        lambda server, url: changed(server, url, FULL, "DROP FUNCTION full_disk CASCADE"),
        Expected("RL-5005", "free some space", reading=True),
    ),
}


@by_name(CASES)
def test_a_trouble_is_told_and_loses_nothing(server: Server, case: Case) -> None:
    url = server.emptied()
    survives(url, lambda: case.trouble(server, url), case.expected)


def test_a_wrong_password_is_told_and_not_shown(server: Server) -> None:
    name = name_of(server.emptied())
    wrong = f"postgresql://guarded:{SECRET}@127.0.0.1:{server.port}/{name}"
    opened_in_trouble(wrong, Expected("RL-5001", "check user and password"))


def test_nobody_at_the_address_is_told() -> None:
    nobody = f"postgresql://relight:{SECRET}@127.0.0.1:{free_port()}/relight"
    opened_in_trouble(nobody, Expected("RL-5001", "start the server"))


def test_a_replica_is_read_refuses_to_write_and_goes_on_when_it_is_promoted(server: Server) -> None:
    url = server.emptied()
    for name in ("idle", "kept"):
        with relight.open(url) as rl, rl.session(name) as s:
            s.append({"role": "user", "content": "one"})
    server.stop()
    replica = Replica(server)
    server.start()
    try:
        there = replica.url(name_of(url))
        opened_in_trouble(there, Expected("RL-5006", "primary", reading=True))
        assert "one" in typed(there, "show", "kept", "--verbose").out
        replica.promote()
        assert typed(there, "send", "kept", "two").code == 0
        with relight.open(there) as rl:
            assert [message["content"] for message in rl.history.load("kept").messages] == ["one", "two"]
    finally:
        replica.close()


class Replica(Server):
    """A hot standby: the same files as a server that is stopped just now, and told to stand by."""

    def __init__(self, primary: Server) -> None:
        self._primary = primary
        self._as_nobody = primary._as_nobody
        self.bin, self.settings = primary.bin, primary.settings
        self.directory = Path(f"{primary.directory}-replica")
        shutil.copytree(primary.directory, self.directory, ignore=shutil.ignore_patterns("near", "log"))
        (self.data / "standby.signal").touch()
        if self._as_nobody:
            for path in (self.directory, *self.directory.rglob("*")):
                shutil.chown(path, 65534, 65534)
        self.port = free_port()
        self._process = None
        self.start()

    def promote(self) -> None:
        self.execute("SELECT pg_promote(true, 30)")
