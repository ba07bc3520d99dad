"""The names of all keys. Those of a session share a hash tag; an index is a sorted set of equal scores, in the order of
its members, so that a page costs the same with a hundred sessions as with a hundred thousand.

A member of an index is the time a session began, eight bytes, most significant first, and its id.
"""

from __future__ import annotations

from typing import Final

import msgspec

from relight.values.session import Identity
from relight.values.status import FINISHED, STATUSES, Status

_ZERO: Final = 1 << 63
_TIME_BYTES: Final = 8


def text_bytes(text: str) -> bytes:
    """As stored: lone surrogates are text too."""
    return text.encode("utf-8", "surrogatepass")


def bytes_text(stored: bytes) -> str:
    """What was given to `text_bytes`; what is no text any more becomes some other text."""
    try:
        return stored.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return stored.decode("utf-8", "backslashreplace")


def time_bytes(created_us: int) -> bytes:
    """In the order of time, before 1970 too."""
    return min(max(created_us + _ZERO, 0), 2 * _ZERO - 1).to_bytes(_TIME_BYTES, "big")


def member_of(created_us: int, session: str) -> bytes:
    """A session in an index."""
    return time_bytes(created_us) + text_bytes(session)


def split_member(member: bytes) -> tuple[int, str]:
    """What `member_of` was given."""
    return int.from_bytes(member[:_TIME_BYTES], "big") - _ZERO, bytes_text(member[_TIME_BYTES:])


def body_field(seq: int) -> bytes:
    """Where a step's body is, beside its columns."""
    return b"b%d" % seq


class SessionKeys(msgspec.Struct, frozen=True):
    """Everything that is one session's own."""

    identity: bytes
    head: bytes
    steps: bytes
    """hash: seq to columns, and b with seq to the body"""
    labels: bytes
    """list of sealed rows, in the order they were given"""
    snapshots: bytes
    """hash: sealed row to the pool's set it is also in"""
    indexes: bytes
    """set: the indexes it is in, those by status not counted"""
    facts: bytes
    """hash: m its member, n its name, l the set of the line it stands in, w its member there, z the bytes of its steps
    where it expires"""


class Keys:
    """Under one prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.encode() + b":"
        self.schema = self._key(b"schema")
        self.changes = self._key(b"changes")
        self.size = self._key(b"bytes")
        self.ids = self._key(b"ids")
        self.names = self._key(b"names")
        self.pools = self._key(b"pools")
        self.all = self._key(b"by:created")
        self.expiring: dict[Status, bytes] = {
            status: self._key(b"expires:" + status.encode()) for status in STATUSES if status in FINISHED
        }
        """finished sessions by the time they end, in milliseconds of the server's time"""
        self.statuses = {status: self._key(b"by:status:" + status.encode()) for status in STATUSES}

    def _key(self, rest: bytes) -> bytes:
        return self._prefix + rest

    def session(self, session: str) -> SessionKeys:
        """The keys of a session."""
        tag = self._key(b"s:{" + text_bytes(session) + b"}:")
        names = (b"identity", b"head", b"steps", b"labels", b"snapshots", b"indexes", b"facts")
        return SessionKeys(*(tag + name for name in names))

    def by(self, field: str, value: str) -> bytes:
        """The index of sessions with this key, agent, provider or parent."""
        return self._key(b"by:" + field.encode() + b":" + text_bytes(value))

    def by_label(self, name: str, value: str) -> bytes:
        """The index of sessions with this label."""
        stored = text_bytes(name)
        return self._key(b"by:label:%d:" % len(stored) + stored + b"=" + text_bytes(value))

    def indexes_of(self, identity: Identity) -> frozenset[bytes]:
        """The indexes a session is in by what it is."""
        fields = {
            "key": identity.key,
            "agent": identity.agent,
            "provider": identity.provider,
            "parent": identity.parent.session if identity.parent else None,
        }
        found = {self.by(field, value) for field, value in fields.items() if value is not None}
        labels = {self.by_label(name, value) for name, value in identity.labels.items()}
        return frozenset({self.all} | found | labels)

    def segments(self, pool: str) -> bytes:
        """The set of segments of a pool that have a row."""
        return self._key(b"pool:{" + text_bytes(pool) + b"}:segments")

    def named(self, pool: str) -> bytes:
        """The set of rows of snapshots that some step names."""
        return self._key(b"pool:{" + text_bytes(pool) + b"}:named")

    @property
    def lines(self) -> bytes:
        """The set of all lines that anybody ever stood in."""
        return self._key(b"lines")

    def ready(self, line: bytes) -> bytes:
        """A line: a sorted set of equal scores, in the order of its members."""
        return self._key(b"line:" + line)

    def later(self, line: bytes) -> bytes:
        """Those of a line whose time comes; by it."""
        return self._key(b"later:" + line)

    def kept(self, kind: str) -> bytes:
        """Small records of a kind: a hash by name."""
        return self._key(b"kept:" + kind.encode())

    def stage(self, token: bytes, number: int) -> bytes:
        """Where the steps of a session wait that is being taken in."""
        return self._key(b"stage:{" + token + b"}:%d" % number)
