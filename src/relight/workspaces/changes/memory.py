"""The memory of one root: every captured directory, and how it is kept between processes.

It is written to a cache file: whole or not believed, never needed for correctness, bound to the root, the policy and
the segments it relies on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from relight.values.snapshot import SnapshotRecord
from relight.workspaces.changes.nodes import Node
from relight.workspaces.pool.objects import digest

CACHE_VERSION: Final = 4
"""4: stores in a workspace are left out by their content; what was remembered before may hold some"""
CACHE_MAX_BYTES: Final = 1024 * 1024 * 1024


class Memory:
    """What the last snapshot left to know. Changed only by a run that met no error."""

    def __init__(self) -> None:
        self.nodes: dict[bytes, Node] = {}
        self.again: set[bytes] = set()
        """directories with names whose last look was not conclusive"""
        self.repositories: set[bytes] = set()
        self.exclude: list[int] = []
        """stat of `.git/info/exclude`"""
        self.last: bytes = b""
        """ref of the last snapshot's record"""
        self.record: SnapshotRecord | None = None

    def drop(self, path: bytes) -> list[bytes]:
        """Forget a directory and all below it; their paths."""
        below = [one for one in self.nodes if one == path or one.startswith(path + b"/")]
        for one in below:
            del self.nodes[one]
            self.again.discard(one)
        return below


class Cached(msgspec.Struct, array_like=True):
    """The cache file."""

    version: int
    bound_to: str
    """root, policy: what the memory is valid for"""
    segments: list[str]
    last: bytes
    exclude: list[int]
    repositories: list[bytes]
    nodes: list[tuple[bytes, int, bytes, bytes, list[bytes]]]
    """path, mode, block, ref, names to look at again"""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Cached)


def save(path: Path, memory: Memory, bound_to: str, segments: Iterable[str]) -> None:
    """Whole or not believed; a cache that cannot be written is no error."""
    nodes = [(one.path, one.mode, one.rebuilt(), one.ref, sorted(one.again)) for one in memory.nodes.values()]
    cached = Cached(
        version=CACHE_VERSION,
        bound_to=bound_to,
        segments=sorted(segments),
        last=memory.last,
        exclude=memory.exclude,
        repositories=sorted(memory.repositories),
        nodes=nodes,
    )
    data = _encoder.encode(cached)
    partial = path.with_suffix(f".{os.getpid()}")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
            file.write(digest(data))
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)


def load(path: Path, bound_to: str, rowed: frozenset[str]) -> tuple[Memory, list[str]] | None:
    """The memory and the segments it relies on, if it is whole, ours, and all of those are still there."""
    cached = read(path)
    if cached is None or cached.bound_to != bound_to or not rowed.issuperset(cached.segments):
        return None
    memory = Memory()
    for at, mode, block, ref, again in cached.nodes:
        memory.nodes[at] = Node(at, mode, block=block, ref=ref, again=frozenset(again))
        if again:
            memory.again.add(at)
    memory.repositories, memory.exclude, memory.last = set(cached.repositories), cached.exclude, cached.last
    return memory, cached.segments


def read(path: Path) -> Cached | None:
    """The cache file, if it is whole and of our version."""
    try:
        if path.stat().st_size > CACHE_MAX_BYTES:
            return None
        data = path.read_bytes()
    except OSError:
        return None
    body = memoryview(data)[:-32]
    if digest(body) != data[-32:]:
        return None
    try:
        cached = _decoder.decode(body)
    except msgspec.MsgspecError:
        return None
    return cached if cached.version == CACHE_VERSION else None
