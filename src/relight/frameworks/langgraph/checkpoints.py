"""Between LangGraph's checkpoints and our records: what a `put` writes, and what a reader is given.

`whole` decodes one checkpoint. `outline` decodes nothing but names: its parts decode themselves when they are looked
at. A list is decoded from its elements, each of which was written once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory

from relight.errors import InvalidMessage
from relight.frameworks.langgraph.index import Index, Stored
from relight.frameworks.langgraph.lazy import LazyDict, LazyList
from relight.frameworks.langgraph.lists import Live, part_of, same_encoded
from relight.frameworks.langgraph.records import ListPart, Put, Writes, pack, plain
from relight.frameworks.langgraph.thread import Thread
from relight.frameworks.langgraph.values import Values
from relight.journal.codec import Undecodable

_VALUES: Final = "channel_values"
_COUNTERS: Final = "counters_since_delta_snapshot"


# -- writing -------------------------------------------------------------------------------------------------------


class PutDraft:
    """A checkpoint ready to be written, and what is to be remembered once it is."""

    def __init__(self, ns: str) -> None:
        self.data = b""
        self.ns = ns
        self.values: dict[str, msgspec.Raw] = {}
        self.lists: dict[str, ListPart] = {}
        self.at: dict[str, int] = {}
        self._lists: list[tuple[str, list[Any], ListPart]] = []

    def add_list(self, channel: str, value: list[Any], part: ListPart) -> None:
        """A list, as its part."""
        self.lists[channel] = part
        self._lists.append((channel, value, part))

    def saved(self, thread: Thread, seq: int) -> None:
        """It is durable: from now on these lists are what the next one is compared with."""
        for channel, value, part in self._lists:
            live = thread.live.get((self.ns, channel))
            if live is not None and part.base and live.seq == part.base:
                live.goes_on(seq, part.keep, value[part.keep :], part.weight)
            else:
                thread.live[self.ns, channel] = Live(seq, list(value), part.weight)


def new_put(
    thread: Thread,
    values: Values,
    ns: str,
    parent: str | None,
    checkpoint: Mapping[str, Any],
    metadata: Mapping[str, Any],
    new_versions: Mapping[str, Any],
) -> PutDraft:
    """The record of a checkpoint: what is new with it, and where the rest lies."""
    draft = PutDraft(ns)
    before = thread.index.find(ns, parent) if parent is not None else None
    versions_before = plain(before.put.rest).get("channel_versions", {}) if before is not None else {}
    versions = checkpoint["channel_versions"]
    for channel, value in checkpoint[_VALUES].items():
        place = thread.index.place(before, channel) if before is not None else None
        is_new = channel in new_versions or versions_before.get(channel) != versions.get(channel)
        if place is not None and not is_new:
            draft.at[channel] = place
        elif type(value) is list:
            _add_list(draft, thread, values, channel, value, place)
        else:
            raw = msgspec.Raw(values.pack(value, channel))
            if place is not None and _is_same_value(thread.index, place, channel, raw):
                draft.at[channel] = place
            else:
                draft.values[channel] = raw
    rest = {key: value for key, value in checkpoint.items() if key not in (_VALUES, "id")}
    record = Put(
        page=thread.index.due_page(),
        ns=ns,
        id=checkpoint["id"],
        parent=parent,
        rest=msgspec.Raw(values.pack(rest, "checkpoint")),
        metadata=msgspec.Raw(values.pack(dict(metadata), "metadata")),
        values=draft.values,
        lists=draft.lists,
        at=draft.at,
    )
    draft.data = pack(record)
    return draft


def _is_same_value(index: Index, place: int, channel: str, raw: msgspec.Raw) -> bool:
    stored = index.raw(place, channel)
    return stored is not None and bytes(stored) == bytes(raw)


def _add_list(
    draft: PutDraft, thread: Thread, values: Values, channel: str, value: list[Any], place: int | None
) -> None:
    def encode(one: Any, at: int) -> bytes:
        return values.pack(one, f"{channel}[{at}]")

    part_before = thread.index.part(place, channel) if place is not None else None
    if place is None or part_before is None:
        draft.add_list(channel, value, part_of(value, 0, 0, 0, encode))
        return
    live = thread.live.get((draft.ns, channel))
    keep, known = 0, min(len(value), part_before.size)
    if live is not None and live.seq == place:
        keep = live.same(value)
    if keep < known:
        stored = thread.index.elements(place, channel)
        keep += same_encoded(value[keep:], stored[keep:], lambda one, at, past=keep: encode(one, at + past))  # type: ignore[misc]
    draft.add_list(channel, value, part_of(value, keep, place, part_before.weight, encode))


def new_writes(values: Values, ns: str, id: str, task: str, path: str, writes: Sequence[tuple[int, str, Any]]) -> bytes:
    """The record of what a task wrote."""
    packed = [(index, channel, msgspec.Raw(values.pack(value, channel))) for index, channel, value in writes]
    return pack(Writes(ns=ns, id=id, task=task, path=path, writes=packed))


# -- reading -------------------------------------------------------------------------------------------------------


class Checkpoints:
    """Reads records as LangGraph's tuples."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._later = self._lazy_checkpoint, self.metadata, self._locked_pending
        """bound once: a list of thousands of rows needs them in each"""

    def whole(self, thread: Thread, stored: Stored, *, live: bool) -> CheckpointTuple:
        """One checkpoint, decoded. `live`: a run goes on with these very objects."""
        checkpoint = self._rest(thread, stored)
        checkpoint[_VALUES] = self._state(thread, stored, live=live)
        return CheckpointTuple(
            config=config_of(thread.id, stored.ns, stored.id),
            checkpoint=checkpoint,  # type: ignore[arg-type]
            metadata=self.metadata(thread, stored),  # type: ignore[arg-type]
            parent_config=_parent(thread.id, stored),
            pending_writes=self._pending(thread, stored),
        )

    def outline(self, thread: Thread, stored: Stored) -> CheckpointTuple:
        """The same, of which nothing is decoded yet."""
        checkpoint, metadata, pending = self._later
        return CheckpointTuple(
            config=config_of(thread.id, stored.ns, stored.id),
            checkpoint=LazyDict(checkpoint, thread, stored),  # type: ignore[arg-type]
            metadata=LazyDict(metadata, thread, stored),  # type: ignore[arg-type]
            parent_config=_parent(thread.id, stored),
            pending_writes=LazyList(pending, thread, stored),
        )

    def metadata(self, thread: Thread, stored: Stored) -> dict[str, Any]:
        """Of a checkpoint."""
        found: dict[str, Any] = self._read(thread, stored.seq, _record(thread, stored).metadata, "metadata")
        return found

    def matches(self, thread: Thread, stored: Stored, filter: Mapping[str, Any]) -> bool:
        """Has its metadata these values?"""
        held = self.metadata(thread, stored)
        return all(held.get(key) == value for key, value in filter.items())

    def history(
        self, thread: Thread, stored: Stored | None, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Per channel the writes on the path to a checkpoint since its nearest stored value, and that value."""
        index = thread.index
        written: dict[str, list[tuple[str, str, Any]]] = {channel: [] for channel in channels}
        seeds: dict[str, Any] = {}
        remaining = set(channels)
        parent = stored.parent if stored is not None else None
        ns = stored.ns if stored is not None else ""
        for _ in range(len(index.spaces.get(ns, ()))):
            at = index.find(ns, parent) if parent is not None else None
            if at is None or not remaining:
                break
            for write in reversed(index.ordered_writes(ns, at.id)):
                if write.channel in remaining:
                    value = self._read(thread, at.seq, write.raw, write.channel)
                    written[write.channel].append((write.task, write.channel, value))
            for channel in [one for one in remaining if index.place(at, one) is not None]:
                seeds[channel] = self._value(thread, at, channel, live=False)
                remaining.discard(channel)
            parent = at.parent
        found: dict[str, DeltaChannelHistory] = {}
        for channel in channels:
            found[channel] = {"writes": written[channel][::-1]}
            if channel in seeds:
                found[channel]["seed"] = seeds[channel]
        return found

    def latest(self, thread: Thread) -> list[Stored]:
        """The newest checkpoint of each namespace, and the ancestors that its delta channels are replayed from."""
        index = thread.index
        keep: dict[tuple[str, str], Stored] = {}
        for ns, space in index.spaces.items():
            newest = index.find(ns, None)
            if newest is None:
                continue
            keep[ns, newest.id] = newest
            counted = self.metadata(thread, newest).get(_COUNTERS) or {}
            remaining = {one for one in counted if index.place(newest, one) is None}
            at = newest
            for _ in range(len(space)):
                parent = index.find(ns, at.parent) if at.parent is not None else None
                if parent is None or not remaining:
                    break
                keep[ns, parent.id] = parent
                remaining = {one for one in remaining if index.place(parent, one) is None}
                at = parent
        return list(keep.values())

    # -- parts ------------------------------------------------------------------------------------------------

    def _read(self, thread: Thread, seq: int, raw: msgspec.Raw | bytes, what: str) -> Any:
        try:
            return self._values.unpack(bytes(raw), what)
        except (Undecodable, InvalidMessage) as error:
            with thread.lock:
                raise thread.damaged(seq, f"{what!a} cannot be read: {error}") from None

    def _rest(self, thread: Thread, stored: Stored) -> dict[str, Any]:
        rest: dict[str, Any] = self._read(thread, stored.seq, _record(thread, stored).rest, "checkpoint")
        rest["id"] = stored.id
        return rest

    def _lazy_checkpoint(self, thread: Thread, stored: Stored) -> dict[str, Any]:
        checkpoint = self._rest(thread, stored)
        checkpoint[_VALUES] = LazyDict(self._locked_state, thread, stored)
        return checkpoint

    def _locked_state(self, thread: Thread, stored: Stored) -> dict[str, Any]:
        with thread.lock:
            return self._state(thread, stored, live=False)

    def _state(self, thread: Thread, stored: Stored, *, live: bool) -> dict[str, Any]:
        return {channel: self._value(thread, stored, channel, live=live) for channel in stored.within.channels(stored)}

    def _value(self, thread: Thread, stored: Stored, channel: str, *, live: bool) -> Any:
        index = stored.within
        seq = index.place(stored, channel)
        assert seq is not None
        try:
            raw = index.raw(seq, channel)
            elements = index.elements(seq, channel) if raw is None else []
        except KeyError:
            raise thread.damaged(stored.seq, f"a part of its channel {channel!a} is missing") from None
        if raw is not None:
            return self._read(thread, seq, raw, channel)
        unpack = self._values.unpack
        try:
            value = [unpack(one, channel) for one in elements]
        except (Undecodable, InvalidMessage) as error:
            raise thread.damaged(seq, f"{channel!a} cannot be read: {error}") from None
        if live:
            part = index.part(seq, channel)
            assert part is not None
            thread.live[stored.ns, channel] = Live(seq, list(value), part.weight)
        return value

    def _locked_pending(self, thread: Thread, stored: Stored) -> list[tuple[str, str, Any]]:
        with thread.lock:
            return self._pending(thread, stored)

    def _pending(self, thread: Thread, stored: Stored) -> list[tuple[str, str, Any]]:
        return [
            (write.task, write.channel, self._read(thread, write.seq, write.raw, write.channel))
            for write in stored.within.ordered_writes(stored.ns, stored.id)
        ]


def config_of(thread_id: str, ns: str, id: str) -> RunnableConfig:
    """Where a checkpoint is found."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": id}}


def _parent(thread_id: str, stored: Stored) -> RunnableConfig | None:
    return config_of(thread_id, stored.ns, stored.parent) if stored.parent is not None else None


def _record(thread: Thread, stored: Stored) -> Put:
    with thread.lock:  # it may have to be read
        return stored.put
