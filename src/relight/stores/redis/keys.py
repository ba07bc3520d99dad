"""The names of all keys. Those of a session share a hash tag.

An index is a sorted set of equal scores, ordered by its members, so that a page costs the same however many sessions
there are. A member is the session's creation time, eight bytes big-endian, and its id.
"""

from __future__ import annotations

from typing import Final

import msgspec

from relight.values.session import Identity
from relight.values.status import FINISHED, STATUSES, Status

_ZERO: Final = 1 << 63
_TIME_BYTES: Final = 8


def text_bytes(text: str) -> bytes:
    """Text as stored; lone surrogates pass through."""
    return text.encode("utf-8", "surrogatepass")


def bytes_text(stored: bytes) -> str:
    """The inverse of `text_bytes`; invalid UTF-8 is escaped."""
    try:
        return stored.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return stored.decode("utf-8", "backslashreplace")


def time_bytes(created_us: int) -> bytes:
    """A time as bytes that sort by time, before 1970 too."""
    return min(max(created_us + _ZERO, 0), 2 * _ZERO - 1).to_bytes(_TIME_BYTES, "big")


def member_of(created_us: int, session: str) -> bytes:
    """The member of a session in an index."""
    return time_bytes(created_us) + text_bytes(session)


def split_member(member: bytes) -> tuple[int, str]:
    """The creation time and id in a member; the inverse of `member_of`."""
    return int.from_bytes(member[:_TIME_BYTES], "big") - _ZERO, bytes_text(member[_TIME_BYTES:])


def body_field(seq: int) -> bytes:
    """The field of a step's body, in the hash of its columns."""
    return b"b%d" % seq


class SessionKeys(msgspec.Struct, frozen=True):
    """The keys of one session."""

    identity: bytes
    head: bytes
    steps: bytes
    """hash: seq to columns, and b with seq to the body"""
    labels: bytes
    """list of sealed rows, in the order they were given"""
    snapshots: bytes
    """hash: sealed row to the pool's set it is also in"""
    indexes: bytes
    """set: the indexes it is in, except those by status"""
    facts: bytes
    """hash: m its member, n its name, l the set of its queue, w its member there, z the bytes of its steps if it
    expires"""


class Keys:
    """The keys of one store, under its prefix."""

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
        """finished sessions by the time they expire, in milliseconds of the server's time"""
        self.statuses = {status: self._key(b"by:status:" + status.encode()) for status in STATUSES}

    def _key(self, rest: bytes) -> bytes:
        return self._prefix + rest

    def session(self, session: str) -> SessionKeys:
        """The keys of a session."""
        tag = self._key(b"s:{" + text_bytes(session) + b"}:")
        names = (b"identity", b"head", b"steps", b"labels", b"snapshots", b"indexes", b"facts")
        return SessionKeys(*(tag + name for name in names))

    def by(self, field: str, value: str) -> bytes:
        """The index of sessions with this key, agent, provider, parent or spawned_by."""
        return self._key(b"by:" + field.encode() + b":" + text_bytes(value))

    def by_label(self, name: str, value: str) -> bytes:
        """The index of sessions with this label."""
        stored = text_bytes(name)
        return self._key(b"by:label:%d:" % len(stored) + stored + b"=" + text_bytes(value))

    def indexes_of(self, identity: Identity) -> frozenset[bytes]:
        """The indexes a session is in by its identity."""
        fields = {
            "key": identity.key,
            "agent": identity.agent,
            "provider": identity.provider,
            "parent": identity.parent.session if identity.parent else None,
            "spawned_by": identity.spawned_by,
        }
        found = {self.by(field, value) for field, value in fields.items() if value is not None}
        labels = {self.by_label(name, value) for name, value in identity.labels.items()}
        return frozenset({self.all} | found | labels)

    def segments(self, pool: str) -> bytes:
        """The set of registered segments of a pool."""
        return self._key(b"pool:{" + text_bytes(pool) + b"}:segments")

    def named(self, pool: str) -> bytes:
        """The set of rows of the pool's snapshots that some step references."""
        return self._key(b"pool:{" + text_bytes(pool) + b"}:named")

    @property
    def queues(self) -> bytes:
        """The set of all queues that were ever used."""
        return self._key(b"lines")

    def ready(self, line: bytes) -> bytes:
        """A queue: a sorted set of equal scores, ordered by its members."""
        return self._key(b"line:" + line)

    def later(self, line: bytes) -> bytes:
        """The sessions of a queue that are not due yet, by due time."""
        return self._key(b"later:" + line)

    def records(self, kind: str) -> bytes:
        """The small records of a kind: a hash by name."""
        return self._key(b"kept:" + kind.encode())

    def stage(self, token: bytes, number: int) -> bytes:
        """The temporary key for the steps of a session that is being imported."""
        return self._key(b"stage:{" + token + b"}:%d" % number)
