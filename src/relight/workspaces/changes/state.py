"""The cached state of one root: every directory of its last snapshot, and how it is saved between processes.

The cache file is never needed for correctness: if it fails its checksum, or belongs to another root, policy or set of
segments, it is ignored.
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
"""4: stores in a workspace are left out by their content; older caches may contain some"""
CACHE_MAX_BYTES: Final = 1024 * 1024 * 1024


class TreeState:
    """What is known since the last snapshot. Changed only by a run that met no error."""

    def __init__(self) -> None:
        self.nodes: dict[bytes, Node] = {}
        self.recheck: set[bytes] = set()
        """directories with names that have to be checked again"""
        self.repositories: set[bytes] = set()
        self.exclude: list[int] = []
        """stat of `.git/info/exclude`"""
        self.last: bytes = b""
        """ref of the last snapshot's record"""
        self.record: SnapshotRecord | None = None

    def drop(self, path: bytes) -> list[bytes]:
        """Forget a directory and everything below it; returns their paths."""
        below = [one for one in self.nodes if one == path or one.startswith(path + b"/")]
        for one in below:
            del self.nodes[one]
            self.recheck.discard(one)
        return below


class Cached(msgspec.Struct, array_like=True):
    """The content of the cache file."""

    version: int
    bound_to: str
    """root and policy that the state is valid for"""
    segments: list[str]
    last: bytes
    exclude: list[int]
    repositories: list[bytes]
    nodes: list[tuple[bytes, int, bytes, bytes, list[bytes]]]
    """path, mode, block, ref, names to check again"""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Cached)


def save(path: Path, state: TreeState, bound_to: str, segments: Iterable[str]) -> None:
    """Write the cache file; failing to is no error."""
    nodes = [(one.path, one.mode, one.current_block(), one.ref, sorted(one.recheck)) for one in state.nodes.values()]
    cached = Cached(
        version=CACHE_VERSION,
        bound_to=bound_to,
        segments=sorted(segments),
        last=state.last,
        exclude=state.exclude,
        repositories=sorted(state.repositories),
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


def load(path: Path, bound_to: str, registered: frozenset[str]) -> tuple[TreeState, list[str]] | None:
    """The state and the segments it depends on, if the file is valid and all of those are still registered."""
    cached = read(path)
    if cached is None or cached.bound_to != bound_to or not registered.issuperset(cached.segments):
        return None
    state = TreeState()
    for at, mode, block, ref, recheck in cached.nodes:
        state.nodes[at] = Node(at, mode, block=block, ref=ref, recheck=frozenset(recheck))
        if recheck:
            state.recheck.add(at)
    state.repositories, state.exclude, state.last = set(cached.repositories), cached.exclude, cached.last
    return state, cached.segments


def read(path: Path) -> Cached | None:
    """The cache file, if it is valid and of this version."""
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
