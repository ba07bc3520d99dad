"""Conversion between LangGraph's checkpoints and records.

`whole` decodes a checkpoint; `outline` decodes only names, and the parts at first access. A list or mapping is decoded
from its elements, each of which was written once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory

from relight.errors import InvalidMessage
from relight.frameworks.langgraph import lists, maps
from relight.frameworks.langgraph.index import Stored
from relight.frameworks.langgraph.lazy import LazyDict, LazyList
from relight.frameworks.langgraph.lists import Live
from relight.frameworks.langgraph.maps import is_divisible
from relight.frameworks.langgraph.records import ListPart, MapPart, Put, Writes, pack, plain
from relight.frameworks.langgraph.thread import Thread
from relight.frameworks.langgraph.values import Values
from relight.journal.codec import Undecodable

_VALUES: Final = "channel_values"
_COUNTERS: Final = "counters_since_delta_snapshot"


# -- writing -------------------------------------------------------------------------------------------------------


class PutDraft:
    """A checkpoint to write, and what to remember once it is durable."""

    def __init__(self, thread: Thread, values: Values, ns: str) -> None:
        self.data = b""
        self.ns = ns
        self.values: dict[str, msgspec.Raw] = {}
        self.lists: dict[str, ListPart] = {}
        self.maps: dict[str, MapPart] = {}
        self.at: dict[str, int] = {}
        self._index, self._live, self._pack = thread.index, thread.live, values.pack
        self._divides = values.divides
        self._given: dict[str, Any] = {}

    def add(self, channel: str, value: Any, seq_before: int | None) -> None:
        """Add a value that may be new; `seq_before`: the record of the previous one."""
        before = self._index.record(seq_before) if seq_before is not None else None
        if type(value) is list:
            self.lists[channel] = self._list(channel, value, seq_before or 0, before)
            self._given[channel] = value
        elif self._divides and is_divisible(value):
            self.maps[channel] = self._map(channel, value, seq_before or 0, before)
            self._given[channel] = value
        else:
            raw = msgspec.Raw(self._pack(value, channel))
            if seq_before is not None and before is not None and bytes(before.values.get(channel, b"")) == bytes(raw):
                self.at[channel] = seq_before
            else:
                self.values[channel] = raw

    def _list(self, channel: str, value: list[Any], seq_before: int, before: Put | None) -> ListPart:
        def pack(one: Any, at: int) -> bytes:
            return self._pack(one, f"{channel}[{at}]")

        part = before.lists.get(channel) if before is not None else None
        if part is None:
            return lists.whole(value, pack)
        live = self._live.get((self.ns, channel))
        known = live if isinstance(live, Live) and live.seq == seq_before else None
        return lists.part_of(value, seq_before, part, known, lambda: self._index.elements(seq_before, channel), pack)

    def _map(self, channel: str, value: dict[str, Any], seq_before: int, before: Put | None) -> MapPart:
        def pack(one: Any, key: str) -> bytes:
            return self._pack(one, f"{channel}.{key}")

        part = before.maps.get(channel) if before is not None else None
        if part is None:
            return maps.whole(value, pack)
        live = self._live.get((self.ns, channel))
        known = live[1] if isinstance(live, tuple) and live[0] == seq_before else None
        return maps.part_of(value, seq_before, part, known, self._index.entries(seq_before, channel), pack)

    def saved(self, thread: Thread, seq: int) -> None:
        """Called when it is durable: the next values are compared with these."""
        for channel, value in self._given.items():
            part, live = self.lists.get(channel), thread.live.get((self.ns, channel))
            if part is None:
                thread.live[self.ns, channel] = seq, dict(value)
            elif isinstance(live, Live) and live.seq == part.base and not part.then:
                live.goes_on(seq, part.keep, value[part.keep :])
            else:
                thread.live[self.ns, channel] = Live(seq, list(value))


def new_put(
    thread: Thread,
    values: Values,
    ns: str,
    parent: str | None,
    checkpoint: Mapping[str, Any],
    metadata: Mapping[str, Any],
    new_versions: Mapping[str, Any],
) -> PutDraft:
    """The record of a checkpoint: its new values, and references to the others."""
    draft = PutDraft(thread, values, ns)
    before = thread.index.find(ns, parent) if parent is not None else None
    versions_before = _versions(thread, before) if before is not None else {}
    versions = checkpoint["channel_versions"]
    for channel, value in checkpoint[_VALUES].items():
        seq_before = thread.index.seq_of(before, channel) if before is not None else None
        is_new = channel in new_versions or versions_before.get(channel) != versions.get(channel)
        if seq_before is not None and not is_new:
            draft.at[channel] = seq_before
            continue
        try:
            draft.add(channel, value, seq_before)
        except KeyError:
            if before is None:
                raise
            raise thread.damaged(before.seq, f"a part of its channel {channel!r} is missing") from None
    if before is not None:
        # A delta channel that this step did not write is left out, though its version is that of a value which the
        # parent has. It belongs to this checkpoint too: the walk back along the writes ends here.
        for channel in versions.keys() - checkpoint[_VALUES].keys() - new_versions.keys():
            seq_before = thread.index.seq_of(before, channel)
            if seq_before is not None and versions_before.get(channel) == versions[channel]:
                draft.at[channel] = seq_before
    rest = {key: value for key, value in checkpoint.items() if key not in (_VALUES, "id")}
    record = Put(
        page=thread.index.due_page(),
        ns=ns,
        id=checkpoint["id"],
        parent=parent,
        rest=msgspec.Raw(values.pack_own(rest, "checkpoint")),
        metadata=msgspec.Raw(values.pack(dict(metadata), "metadata")),
        values=draft.values,
        lists=draft.lists,
        maps=draft.maps,
        at=draft.at,
    )
    draft.data = pack(record)
    return draft


def _versions(thread: Thread, before: Stored) -> Mapping[str, Any]:
    rest = plain(before.put.rest)
    versions = rest.get("channel_versions", {}) if type(rest) is dict else None
    if type(versions) is not dict:
        raise thread.damaged(before.seq, "'checkpoint' is not a mapping")
    return versions


def new_writes(values: Values, ns: str, id: str, task: str, path: str, writes: Sequence[tuple[int, str, Any]]) -> bytes:
    """The record of a task's writes."""
    packed = [(index, channel, msgspec.Raw(values.pack(value, channel))) for index, channel, value in writes]
    return pack(Writes(ns=ns, id=id, task=task, path=path, writes=packed))


# -- reading -------------------------------------------------------------------------------------------------------


class Checkpoints:
    """Converts records to LangGraph's tuples."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._later = self._lazy_checkpoint, self.metadata, self._locked_pending
        """bound once, because a list of thousands of rows calls them for each"""

    def whole(self, thread: Thread, stored: Stored, *, live: bool) -> CheckpointTuple:
        """One checkpoint, decoded. `live`: a run continues with these objects."""
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
        """One checkpoint, decoded at first access."""
        checkpoint, metadata, pending = self._later
        return CheckpointTuple(
            config=config_of(thread.id, stored.ns, stored.id),
            checkpoint=LazyDict(checkpoint, thread, stored),  # type: ignore[arg-type]
            metadata=LazyDict(metadata, thread, stored),  # type: ignore[arg-type]
            parent_config=_parent(thread.id, stored),
            pending_writes=LazyList(pending, thread, stored),
        )

    def metadata(self, thread: Thread, stored: Stored) -> dict[str, Any]:
        """The metadata of a checkpoint; tuples are lists, because LangGraph's own savers store it as JSON."""
        found = self._mapping(thread, stored.seq, _record(thread, stored).metadata, "metadata")
        return {key: _as_json(value) for key, value in found.items()}

    def matches(self, thread: Thread, stored: Stored, filter: Mapping[str, Any]) -> bool:
        """Whether its metadata has these values."""
        held = self.metadata(thread, stored)
        return all(held.get(key) == value for key, value in filter.items())

    def history(
        self, thread: Thread, stored: Stored | None, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Per channel, its nearest stored value and the writes since, on the path to a checkpoint."""
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
            for channel in [one for one in remaining if index.seq_of(at, one) is not None]:
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
            remaining = {one for one in counted if index.seq_of(newest, one) is None}
            at = newest
            for _ in range(len(space)):
                parent = index.find(ns, at.parent) if at.parent is not None else None
                if parent is None or not remaining:
                    break
                keep[ns, parent.id] = parent
                remaining = {one for one in remaining if index.seq_of(parent, one) is None}
                at = parent
        return list(keep.values())

    # -- parts ------------------------------------------------------------------------------------------------

    def _read(self, thread: Thread, seq: int, raw: msgspec.Raw | bytes, what: str) -> Any:
        try:
            return self._values.unpack(bytes(raw), what)
        except (Undecodable, InvalidMessage) as error:
            with thread.lock:
                raise thread.damaged(seq, f"{what!r} cannot be read: {error}") from None

    def _mapping(self, thread: Thread, seq: int, raw: msgspec.Raw, what: str) -> dict[str, Any]:
        found = self._read(thread, seq, raw, what)
        if type(found) is not dict:
            with thread.lock:
                raise thread.damaged(seq, f"{what!r} is not a mapping")
        return found

    def _rest(self, thread: Thread, stored: Stored) -> dict[str, Any]:
        rest = self._mapping(thread, stored.seq, _record(thread, stored).rest, "checkpoint")
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
        seq = index.seq_of(stored, channel)
        assert seq is not None
        try:
            held = index.encoded(seq, channel)
        except KeyError:
            raise thread.damaged(stored.seq, f"a part of its channel {channel!r} is missing") from None
        if isinstance(held, msgspec.Raw):
            return self._read(thread, seq, held, channel)
        unpack = self._values.unpack
        value: Any
        try:
            if isinstance(held, Mapping):
                value = {key: unpack(one, channel) for key, one in held.items()}
            else:
                value = [unpack(one, channel) for one in held]
        except (Undecodable, InvalidMessage) as error:
            raise thread.damaged(seq, f"{channel!r} cannot be read: {error}") from None
        if live:
            kept = Live(seq, list(value)) if type(value) is list else (seq, dict(value))
            thread.live[stored.ns, channel] = kept
        return value

    def _locked_pending(self, thread: Thread, stored: Stored) -> list[tuple[str, str, Any]]:
        with thread.lock:
            return self._pending(thread, stored)

    def _pending(self, thread: Thread, stored: Stored) -> list[tuple[str, str, Any]]:
        return [
            (write.task, write.channel, self._read(thread, write.seq, write.raw, write.channel))
            for write in stored.within.ordered_writes(stored.ns, stored.id)
        ]


def _as_json(value: Any) -> Any:
    if type(value) is dict:
        return {key: _as_json(one) for key, one in value.items()}
    return [_as_json(one) for one in value] if type(value) in (list, tuple) else value


def config_of(thread_id: str, ns: str, id: str) -> RunnableConfig:
    """The config that names a checkpoint."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": id}}


def _parent(thread_id: str, stored: Stored) -> RunnableConfig | None:
    return config_of(thread_id, stored.ns, stored.parent) if stored.parent is not None else None


def _record(thread: Thread, stored: Stored) -> Put:
    with thread.lock:  # it may have to be read
        return stored.put
