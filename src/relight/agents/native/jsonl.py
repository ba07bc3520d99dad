"""JSON-lines files that another process writes, perhaps at this moment, perhaps killed in the middle of a line.

Reading never raises. A line counts if it is a whole JSON object, the last one even without a newline. Everything after
the last line that counts is the torn tail. Unreadable lines before it are skipped, and stay in the file.

Writing is atomic and durable: a new file gets its name only when all lines are on disk; `append` changes nothing before
its offset.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from relight.errors import Conflict, Refused
from relight.system import private_directories
from relight.system.durable import sync_directory, sync_file

_DECODER: Final = msgspec.json.Decoder()
_ENCODER: Final = msgspec.json.Encoder()
_PRIVATE_FILE: Final = 0o600


class Lines(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of a file that count."""

    lines: tuple[dict[str, Any], ...]
    offset: int
    """end of the last one, including its newline if it has one"""
    tail: bytes


def parse(data: bytes) -> Lines:
    """All lines of these bytes that count."""
    lines, end, at = [], 0, 0
    while at < len(data):
        newline = data.find(b"\n", at)
        stop = len(data) if newline < 0 else newline + 1
        line = _object(data[at:stop])
        if line is not None:
            lines.append(line)
        if line is not None or (at == end and data[at:stop] == b"\n"):
            end = stop  # an empty line is neither a line nor a torn tail
        at = stop
    return Lines(lines=tuple(lines), offset=end, tail=data[end:])


def read(path: Path, *, after: int = 0) -> Lines:
    """The lines of a file from an offset on; none if it is missing or cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(after)
            return parse(file.read())
    except OSError:
        return Lines(lines=(), offset=0, tail=b"")


def first(path: Path) -> dict[str, Any] | None:
    """The first line of a file, without reading the rest; None if it is no JSON object."""
    try:
        with path.open("rb") as file:
            return _object(file.readline())
    except OSError:
        return None


def encode(lines: Iterable[dict[str, Any]]) -> bytes:
    """Encode lines as UTF-8 JSON, one per line."""
    return b"".join(_encoded(line) + b"\n" for line in lines)


def create(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Create a file with these lines, atomically and durably. Refused if it exists."""
    data = encode(lines)
    private_directories.make(path.parent)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _PRIVATE_FILE)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            sync_file(descriptor)
        os.link(partial, path)
    except FileExistsError:
        raise Conflict(f"the agent's session file {path} exists already; nothing was written") from None
    except OSError as error:
        raise Refused(f"the agent's session file {path} cannot be written: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)
    sync_directory(path.parent)


def append(path: Path, lines: Sequence[dict[str, Any]], *, offset: int) -> None:
    """Truncate a file at `offset`, terminate its last line and append these lines, durably.

    Conflict if the file ends before the offset.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except OSError as error:
        raise Conflict(f"the agent's session file {path} cannot be opened: {error.strerror}") from None
    with open(descriptor, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        if size < offset:
            hints = ["resume again: the native session is then rewritten from the journal"]
            raise Conflict(f"{path} is shorter than when it was read ({size} bytes, not {offset})", hints=hints)
        data = encode(lines)
        if offset and os.pread(descriptor, 1, offset - 1) != b"\n":
            data = b"\n" + data
        if size == offset and not data:
            return
        file.truncate(offset)
        file.seek(offset)
        file.write(data)
        file.flush()
        sync_file(descriptor)


def keep(path: Path, copy: Path, clean: Callable[[str], str]) -> None:
    """Copy a file durably, each line redacted by `clean`; nothing if the copy exists."""
    if copy.exists():
        return
    private_directories.make(copy.parent)
    partial = copy.with_name(f".{copy.name}.{secrets.token_hex(4)}")
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE), "wb") as file:
        with path.open("rb") as lines:
            for line in lines:
                text = clean(line.decode("utf-8", "surrogateescape"))
                file.write(text.encode("utf-8", "surrogateescape"))
        file.flush()
        sync_file(file.fileno())
    partial.rename(copy)
    sync_directory(copy.parent)


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        found = _DECODER.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        found = _with_half_characters(raw) if b"\\ud" in raw.lower() else None
    return found if isinstance(found, dict) else None


def _with_half_characters(raw: bytes) -> Any:
    """Decode one line; with the standard library, which accepts the lone surrogates that JavaScript writes."""
    try:
        return json.loads(raw, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _encoded(line: dict[str, Any]) -> bytes:
    try:
        return _ENCODER.encode(line)
    except UnicodeEncodeError:
        return json.dumps(line, ensure_ascii=True, separators=(",", ":")).encode()
