"""One store of one kind, and the command line over it inside this process: what was typed, what came back.

Time and chance are the test's own, so that two desks that are told the same show the same, byte for byte, whatever
keeps their sessions. Only what really is another thing is made equal: where the store and the files lie, and the names
of snapshots, which hold the times of the files; those are numbered as they appear. A server counts leases in its own
time, so that when one ends is left out; and so is, where a scene says so, the working time of a session that was taken
from its owner, because it counts up to the last renewal of the lease.
"""

from __future__ import annotations

import io
import json
import re
from contextlib import AbstractContextManager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw
import msgspec
import psycopg
import redis

from relight import wiring
from relight.cli.app.context import CliContext
from relight.cli.app.group import run
from relight.library.facade import Relight
from relight.stores.memory import MemoryStore
from relight.testing.clock import ManualClock, SeededEntropy

_SNAPSHOT: Final = re.compile(r"sha256:[0-9a-f]{64}")
_LEASE_END: Final = re.compile(r"\d\d:\d\d:\d\d UTC \(in \d+ s\)|\d+ s left")
_WORKED: Final = re.compile(r'"worked_seconds": [0-9.]+')


class Answer(NamedTuple):
    """What a command gave back."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str


class CliRunner:
    """`kind` of store at `address`, a directory to work in, and every answer so far."""

    def __init__(self, kind: str, address: str, directory: Path) -> None:
        self.kind, self.address = kind, address
        self.base = directory
        self.directory = directory / "shop"
        self.directory.mkdir(parents=True)
        self.clock, self.chance = ManualClock(), SeededEntropy(7)
        self.answers: list[Answer] = []
        self._snapshots: dict[str, int] = {}
        self._compares_working_time = True
        self._memory = MemoryStore(self.clock)
        self._memory.blobs = directory / "memory.blobs"  # so that the next command finds the same content

    def opened(self, *, create: bool = True) -> Relight:
        """The library, as a program or a command opens it."""
        store: str | MemoryStore = self._memory if self.kind == "memory" else self.address
        return wiring.open(store, clock=self.clock, entropy=self.chance, create=create, ready=False)

    def run(self, *words: str, code: int = 0) -> Answer:
        """Type a command, a second later; its exit code must be this one."""
        self.clock.advance(1.0)
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            exit_code = run(words, _DeskDoor(self))
        answer = Answer(self._alike_words(words), exit_code, self._alike(out.getvalue()), self._alike(err.getvalue()))
        self.answers.append(answer)
        assert exit_code == code, f"{self.kind}: {answer}"
        return answer

    def json(self, *words: str, code: int = 0) -> Any:
        """The document a command prints."""
        return json.loads(self.run(*words, "--json", code=code).out)

    def write(self, name: str, text: str) -> None:
        """A file of the workspace."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def read(self, name: str) -> str | None:
        path = self.directory / name
        return path.read_text() if path.exists() else None

    def leave_out_working_time(self) -> None:
        """From now on: a lease was taken from its owner, and the runner's clock is not the server's."""
        self._compares_working_time = False

    def _alike(self, text: str) -> str:
        alike = text.replace(str(self.base), "BASE").replace(self.address, "STORE")
        alike = _LEASE_END.sub("LATER", alike)
        if not self._compares_working_time:
            alike = _WORKED.sub('"worked_seconds": "COUNTED"', alike)
        known = self._snapshots
        return _SNAPSHOT.sub(lambda found: f"SNAPSHOT-{known.setdefault(found[0], len(known) + 1)}", alike)

    def _alike_words(self, words: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(self._alike, words))

    # -- behind the store's back -------------------------------------------------------------------------------

    def damage(self, session: str, seq: int) -> None:
        """Another last byte in the body of a step."""
        match self.kind:
            case "memory":
                steps = self._memory._steps[session]
                steps[seq - 1] = msgspec.structs.replace(steps[seq - 1], body=_other(steps[seq - 1].body))
            case "sqlite":
                self._damage_sqlite(session, seq)
            case "postgres":
                where = "WHERE seq = %s AND sid = (SELECT sid FROM relight.sessions WHERE id = %s)"
                with psycopg.connect(self.address) as connection:
                    given = (seq, session.encode())
                    row = connection.execute(f"SELECT body FROM relight.steps {where}".encode(), given).fetchone()
                    assert row is not None
                    set_body = f"UPDATE relight.steps SET body = %s {where}".encode()
                    connection.execute(set_body, (_other(row[0]), *given))
            case "redis":
                address, _, prefix = self.address.partition("?prefix=")
                with redis.Redis(unix_socket_path=address.removeprefix("unix://")) as client:
                    key = f"{prefix}:s:{{{session}}}:steps"
                    body: Any = client.hget(key, f"b{seq}")
                    client.hset(key, f"b{seq}", _other(body))

    def _damage_sqlite(self, session: str, seq: int) -> None:
        connection = apsw.Connection(self.address.removeprefix("sqlite:///"))
        with connection:
            sid = connection.execute("SELECT sid FROM sessions WHERE id = ?", (session,)).get
            body = connection.execute("SELECT body FROM steps WHERE id = ?", ((sid << 32) | seq,)).get
            data = connection.execute("SELECT data FROM bodies WHERE id = ?", (body,)).get
            connection.execute("UPDATE bodies SET data = ? WHERE id = ?", (_other(data), body))
        connection.close()


class _DeskDoor(CliContext):
    """A connection to the runner's store, on the runner's clock."""

    def __init__(self, runner: CliRunner) -> None:
        super().__init__()
        self._desk = runner

    def opened(self, *, create: bool = False, may_be_missing: bool = False) -> AbstractContextManager[Relight]:
        return self._desk.opened(create=create)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._desk.clock.now_us() / 1e6, UTC)


def _other(body: bytes) -> bytes:
    return body[:-1] + bytes([body[-1] ^ 1])
