"""opencode's database: sessions are found and read there, and open calls are ended there.

A session that we write goes to a file of JSON lines in a directory of ours beside the database, and from there into it
by `opencode import` when it is started; so no row of a new session is made by us. A session is named by the path of
that file, whether it exists or not: the database is read where it has the session.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from relight.agents.native import jsonl
from relight.agents.native.names import home_of, inside, own_directory, place_in, recent
from relight.agents.opencode import rows
from relight.agents.opencode.format import OPENCODE
from relight.agents.opencode.rows import Row, Said
from relight.errors import Conflict, UsageError
from relight.ports.agent import Begun, Line, Surroundings, Transcript

_ID: Final = re.compile(r"ses_[0-9a-zA-Z]{20,40}", re.ASCII)
_OURS: Final = "relight"
_WAIT_SECONDS: Final = 10.0
_LATEST: Final = 1000
"""sessions that are searched for those of a directory"""


def is_id(value: Any) -> bool:
    """Whether it is the id of a session of opencode."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def checked_id(value: str) -> str:
    """The id, if it is one; else UsageError."""
    if not is_id(value):
        raise UsageError(f"{value!r} is not the id of a session of opencode: that begins with ses_")
    return value


def data_home(surroundings: Surroundings) -> Path:
    """The directory of its database."""
    moved = surroundings.environment.get("XDG_DATA_HOME")
    home = Path(surroundings.directory, moved) if moved else home_of(surroundings.environment) / ".local" / "share"
    return own_directory(home / "opencode", surroundings.environment)


def path_of(native_id: str, surroundings: Surroundings) -> Path:
    """The path that names a session. UsageError for an invalid id."""
    home = data_home(surroundings)
    return place_in(home / _OURS, home) / f"{checked_id(native_id)}.jsonl"


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The database, which must exist: opencode makes it. A link is not followed."""
    if path.is_symlink() or not path.is_file():
        raise sqlite3.OperationalError("there is no database")
    with closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=_WAIT_SECONDS)) as connection:
        yield connection


def _database(path: Path) -> Path:
    return path.parent.parent / "opencode.db"


def has(path: Path) -> bool:
    """Whether the database has this session."""
    return directory_of(path) is not None


def directory_of(path: Path) -> str | None:
    """The directory of a session in the database; None if it is not there."""
    try:
        with _opened(_database(path)) as db:
            found = db.execute("SELECT directory FROM session WHERE id = ?", (path.stem,)).fetchone()
    except sqlite3.Error:
        return None
    return found[0] if found else None


def is_helper(path: Path) -> bool:
    """Whether it is the session of a sub-agent."""
    try:
        with _opened(_database(path)) as db:
            found = db.execute("SELECT parent_id FROM session WHERE id = ?", (path.stem,)).fetchone()
    except sqlite3.Error:
        return False
    return found is not None and found[0] is not None


def locate(native_id: str, surroundings: Surroundings) -> Path | None:
    """The path of this session, if it is one of this directory."""
    if not is_id(native_id):
        return None
    path, here = path_of(native_id, surroundings), os.path.realpath(surroundings.directory)
    begun = directory_of(path)
    if begun is None and inside(path, data_home(surroundings)) is not None:
        begun = (jsonl.first(path) or {}).get("directory")
    return path if isinstance(begun, str) and os.path.realpath(begun) == here else None


def everywhere(surroundings: Surroundings, *, most: int) -> list[Begun]:
    """The sessions of all directories, most recently changed first, without those of sub-agents."""
    home = data_home(surroundings)
    found: dict[str, Begun] = {}
    for at_us, path in recent(home / _OURS, depth=0):
        directory = (jsonl.first(path) or {}).get("directory")
        if is_id(path.stem) and inside(path, home) is not None and isinstance(directory, str):
            found[path.stem] = Begun(native_id=path.stem, directory=directory, touched_us=at_us)
    query = "SELECT id, directory, time_updated FROM session WHERE parent_id IS NULL ORDER BY time_updated DESC LIMIT ?"
    try:
        with _opened(home / "opencode.db") as db:
            for name, directory, at_ms in db.execute(query, (_LATEST,)):
                found[name] = Begun(native_id=name, directory=directory, touched_us=at_ms * 1000)
    except sqlite3.Error:
        pass  # no database yet, or one of another version: then there is no session that we could read
    return sorted(found.values(), key=lambda one: one.touched_us, reverse=True)[:most]


def begun(surroundings: Surroundings, *, since_us: int = 0) -> list[str]:
    """Ids of the sessions of this directory that were begun since then, newest first."""
    home, here = data_home(surroundings), os.path.realpath(surroundings.directory)
    found = {one.native_id: one for one in everywhere(surroundings, most=_LATEST)}
    begun_us = {name: one.touched_us for name, one in found.items()}
    query = "SELECT id, time_created FROM session WHERE parent_id IS NULL ORDER BY time_created DESC LIMIT ?"
    try:
        with _opened(home / "opencode.db") as db:
            begun_us |= {name: at_ms * 1000 for name, at_ms in db.execute(query, (_LATEST,)) if name in found}
    except sqlite3.Error:
        pass  # no database yet, as in `everywhere`
    # Its clock has milliseconds.
    ours = [one for one in found.values() if os.path.realpath(one.directory) == here and is_id(one.native_id)]
    new = [one.native_id for one in ours if begun_us[one.native_id] >= since_us // 1000 * 1000]
    return sorted(new, key=begun_us.__getitem__, reverse=True)


def said_in(path: Path) -> list[Said] | None:
    """The messages of a session in the database; None if it is not there."""
    try:
        with _opened(_database(path)) as db:
            db.execute("BEGIN")
            if db.execute("SELECT 1 FROM session WHERE id = ?", (path.stem,)).fetchone() is None:
                return None
            query = "SELECT id, message_id, time_created, data FROM part WHERE session_id = ? ORDER BY id"
            parts: dict[str, list[Row]] = {}
            for name, message, at_ms, data in db.execute(query, (path.stem,)):
                parts.setdefault(message, []).append(Row(name, at_ms, _object(data)))
            query = "SELECT id, time_created, data FROM message WHERE session_id = ? ORDER BY time_created, id"
            messages = [Row(name, at_ms, _object(data)) for name, at_ms, data in db.execute(query, (path.stem,))]
    except sqlite3.Error:
        return None
    return [Said(one, tuple(parts.get(one.id, ()))) for one in messages]


def _object(data: Any) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def below(path: Path) -> list[tuple[str, str | None, str | None]]:
    """The sessions that a session's calls of `task` began: id, title, and the call, if its row names the session."""
    begun = "SELECT id, title FROM session WHERE parent_id = ? ORDER BY time_created LIMIT ?"
    query = "SELECT data FROM part WHERE session_id = ? AND data LIKE '%\"sessionId\"%'"
    calls: dict[str, str] = {}
    try:
        with _opened(_database(path)) as db:
            found = [one for one in db.execute(begun, (path.stem, _LATEST)) if is_id(one[0])]
            for (data,) in db.execute(query, (path.stem,)) if found else ():
                part = _object(data)
                named = rows.subagent_of(part)
                if named is not None and isinstance(part.get("callID"), str):
                    calls[named] = part["callID"]
    except sqlite3.Error:
        return []
    return [(name, title if isinstance(title, str) else None, calls.get(name)) for name, title in found]


class SessionFollower:
    """Reads a session where it is: in the database, or in the file that is imported at its start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: list[tuple[int, int, int]] | None = None
        self._read: Transcript | None = None

    def read(self) -> Transcript:
        """The present session; the same object if nothing changed."""
        database = _database(self._path)
        seen = [_looked(one) for one in (database, database.with_name("opencode.db-wal"), self._path)]
        if self._read is None or seen != self._seen:
            self._read, self._seen = self._fresh(), seen
        return self._read

    def _fresh(self) -> Transcript:
        path, said = self._path, said_in(self._path) if is_id(self._path.stem) else None
        offset, torn = 0, b""
        if said is None:
            found = jsonl.read(path)
            lines = [line for line in found.lines if OPENCODE.recognises(line)]
            offset, torn = found.offset, found.tail
        else:
            lines = rows.lines_of(said)
        entries = tuple(map(rows.entry_of, lines))
        model = next((entry.model for entry in reversed(entries) if entry.model is not None), None)
        named = path.stem if is_id(path.stem) else ""
        return Transcript(native_id=named, path=path, entries=entries, offset=offset, torn=torn, model=model)


def _looked(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_size, status.st_mtime_ns


def append(path: Path, lines: Sequence[Line], *, offset: int) -> None:
    """Add lines to a session where it is. In the database, texts and calls that its process had not finished writing
    are ended too: a call behind one of them is no line, and opencode would only report it as interrupted."""
    said = said_in(path)
    if said is None:
        jsonl.append(path, lines, offset=offset)
        return
    known = {one.id[:16]: one.id for each in said for one in (each.message, *each.parts)}
    placed = rows.moved(lines, lambda name: known.get(name[:16]) or rows.own_name(name, path.stem))
    ended = [(part, data) for each in said for part in each.parts if (data := rows.closed(part)) is not None]
    try:
        with _opened(_database(path)) as db, db:
            db.execute("BEGIN IMMEDIATE")
            for each in rows.rows_of(placed):
                _put(db, path.stem, each)
            for part, data in ended:
                db.execute("UPDATE part SET data = ? WHERE id = ?", (msgspec.json.encode(data).decode(), part.id))
    except sqlite3.Error as error:
        hints = ["end other processes of opencode that use this database, then resume again"]
        raise Conflict(f"opencode's database {_database(path)} cannot be written: {error}", hints=hints) from None


def _put(db: sqlite3.Connection, session: str, said: Said) -> None:
    row = said.message
    db.execute(
        "INSERT OR IGNORE INTO message (id, session_id, time_created, time_updated, data) VALUES (?, ?, ?, ?, ?)",
        (row.id, session, row.created_ms, row.created_ms, msgspec.json.encode(row.data).decode()),
    )
    for part in said.parts:
        db.execute(
            "INSERT INTO part (id, message_id, session_id, time_created, time_updated, data) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET data = excluded.data",
            (part.id, row.id, session, part.created_ms, part.created_ms, msgspec.json.encode(part.data).decode()),
        )


def exported(path: Path) -> bytes:
    """The session in our file as `opencode import` takes it."""
    found = jsonl.read(path).lines
    head, said = found[0] if found else {}, rows.rows_of(line for line in found if OPENCODE.recognises(line))
    name, directory, at_ms = path.stem, str(head.get("directory")), int(head.get("created") or 0)
    info: dict[str, Any] = {
        "id": name,
        "slug": "relight",
        "projectID": "global",
        "directory": directory,
        "title": "continued by relight",
        "version": "1.18.33",
        "time": {"created": at_ms, "updated": at_ms},
    }
    messages: list[dict[str, Any]] = [
        {
            "info": {**one.message.data, "id": one.message.id, "sessionID": name},
            "parts": [
                {**_owned(part.data, owner), "id": part.id, **owner}
                for part in one.parts
                for owner in ({"messageID": one.message.id, "sessionID": name},)
            ],
        }
        for one in said
    ]
    return msgspec.json.encode({"info": info, "messages": messages})


def _owned(data: dict[str, Any], owner: dict[str, str]) -> dict[str, Any]:
    """A part whose attachments, which are parts too, belong to the same message."""
    state = data.get("state")
    if not isinstance(state, dict) or not isinstance(files := state.get("attachments"), list):
        return data
    return {**data, "state": {**state, "attachments": [{**one, **owner} for one in files if isinstance(one, dict)]}}
