"""Imports threads from LangGraph's own savers: each whole or not at all, and verified by reading it back.

A thread whose checkpoints are imported already is skipped, whatever was added to it since, so that an interrupted
import can simply be run again. A different thread with the same id is never modified.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal

import msgspec

from relight.errors import RelightError
from relight.frameworks.langgraph import naming
from relight.frameworks.langgraph.builder import Builder
from relight.frameworks.langgraph.foreign import Foreign, Refusal
from relight.frameworks.langgraph.index import Encoded, Index, Write
from relight.frameworks.langgraph.maps import is_divisible
from relight.frameworks.langgraph.records import plain
from relight.frameworks.langgraph.sources import ForeignCheckpoint, ForeignWrite, Source, opened
from relight.frameworks.langgraph.thread import Thread
from relight.journal.codec import encoded
from relight.library.facade import Relight, context_of
from relight.sessions.context import Context
from relight.values.status import StatusChange

Outcome = Literal["copied", "here", "refused"]
_LEASE_SECONDS = 5.0


class ThreadReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the import of one thread."""

    thread: str
    outcome: Outcome
    checkpoints: int = 0
    writes: int = 0
    why: str | None = None
    """reason of a refusal"""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an import of several threads."""

    threads: list[ThreadReport]
    types: dict[str, int]
    """user types and how often they occurred; a program has to register them before it can load them"""
    dry_run: bool

    def count(self, outcome: Outcome) -> int:
        """Number of threads with this result."""
        return sum(one.outcome == outcome for one in self.threads)


def import_threads(
    rl: Relight, url: str, *, threads: Sequence[str] = (), dry_run: bool = False
) -> Iterator[ThreadReport | Report]:
    """Copy all threads, or these; yields a result for each, then one for all."""
    foreign = Foreign()
    done: list[ThreadReport] = []
    with opened(url) as source:
        for thread in threads or source.threads():
            report = _one(context_of(rl), source, foreign, thread, dry_run=dry_run)
            done.append(report)
            yield report
    yield Report(threads=done, types=foreign.types, dry_run=dry_run)


def _one(context: Context, source: Source, foreign: Foreign, thread: str, *, dry_run: bool) -> ThreadReport:
    builder = Builder()
    expected: list[bytes] = []
    named: set[tuple[str, str]] = set()
    writes = 0
    try:
        pending = _grouped(source.writes(thread, foreign))
        for checkpoint in source.checkpoints(thread, foreign):
            values = {channel: _encoded(value) for channel, value in checkpoint.values.items()}
            on_top = pending.get((checkpoint.ns, checkpoint.id), [])
            _add(builder, checkpoint, values, on_top)
            named.add((checkpoint.ns, checkpoint.id))
            outline = [checkpoint.ns, checkpoint.id, checkpoint.parent, checkpoint.rest, checkpoint.metadata]
            expected.append(_digest(outline, values, on_top))
            writes += len(on_top)
        if not expected:
            return ThreadReport(thread=thread, outcome="refused", why="it has no checkpoint")
        here = Thread(context, thread, lease_seconds=_LEASE_SECONDS)
        there_already = here.look() and any(here.index.spaces.values())
        if there_already and not named <= {(one.ns, one.id) for one in here.index.newest_first(None)}:
            return ThreadReport(thread=thread, outcome="refused", why="there is another thread of this id here")
        if not there_already and not dry_run:
            if here.identity is not None:
                here.delete()
            naming.write_new(context, thread, builder.records, StatusChange(status="terminated", reason="imported"))
            here = Thread(context, thread, lease_seconds=_LEASE_SECONDS)
            if not here.look() or _digests(here.index) != sorted(expected):
                here.delete()
                return ThreadReport(thread=thread, outcome="refused", why="what was read back differs from its source")
    except Refusal as error:
        return ThreadReport(thread=thread, outcome="refused", why=f"it holds {error}, which is not data")
    except RelightError as error:
        return ThreadReport(thread=thread, outcome="refused", why=str(error))
    outcome: Outcome = "here" if there_already else "copied"
    return ThreadReport(thread=thread, outcome=outcome, checkpoints=len(expected), writes=writes)


def _grouped(writes: Iterator[ForeignWrite]) -> dict[tuple[str, str], list[Write]]:
    found: dict[tuple[str, str], list[Write]] = {}
    for one in writes:
        raw = msgspec.Raw(encoded(one.value))
        found.setdefault((one.ns, one.checkpoint), []).append(Write(one.task, one.at, one.channel, raw, one.path))
    return found


def _encoded(value: Any) -> Encoded:
    if type(value) is list:
        return [encoded(one) for one in value]
    if is_divisible(value):
        return {key: encoded(one) for key, one in value.items()}
    return msgspec.Raw(encoded(value))


def _add(builder: Builder, checkpoint: ForeignCheckpoint, values: dict[str, Encoded], writes: list[Write]) -> None:
    builder.put(
        ns=checkpoint.ns,
        id=checkpoint.id,
        parent=checkpoint.parent,
        rest=msgspec.Raw(encoded(checkpoint.rest)),
        metadata=msgspec.Raw(encoded(checkpoint.metadata)),
        values=values,
    )
    builder.writes(ns=checkpoint.ns, id=checkpoint.id, writes=writes)


def _digests(index: Index) -> list[bytes]:
    """The imported thread in the form used for comparison."""
    found = []
    for stored in index.newest_first(None):
        values: dict[str, Encoded] = {}
        for channel in index.channels(stored):
            seq = index.seq_of(stored, channel)
            assert seq is not None
            values[channel] = index.encoded(seq, channel)
        put = stored.put
        writes = list(index.written(put.ns, put.id).values())
        outline = [put.ns, put.id, put.parent, plain(put.rest), plain(put.metadata)]
        found.append(_digest(outline, values, writes))
    return sorted(found)


def _parts(value: Encoded) -> list[bytes]:
    if isinstance(value, msgspec.Raw):
        return [bytes(value)]
    if isinstance(value, Mapping):
        return [b"map", *(part for key, one in value.items() for part in (encoded(key), one))]
    return [b"list", *value]


def _digest(outline: Sequence[Any], values: dict[str, Encoded], writes: Sequence[Write]) -> bytes:
    """Digest of a checkpoint with its values and writes."""
    state = sha256(encoded(outline))
    for channel in sorted(values):
        value = values[channel]
        parts = _parts(value)
        state.update(encoded([channel, len(parts)]))
        for part in parts:
            state.update(len(part).to_bytes(8, "big") + part)
    for write in sorted(writes, key=lambda one: one.order):
        state.update(encoded([write.task, write.at, write.channel, write.path, bytes(write.raw)]))
    return state.digest()
