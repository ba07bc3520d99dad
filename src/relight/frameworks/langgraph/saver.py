"""`RelightSaver`: LangGraph's checkpointer on relight.

Every `put` and every `put_writes` is one durable step of the thread's session, committed before it returns. This module
translates LangGraph's calls; thread.py decides who may write, records.py what is stored, values.py which values are
allowed. The asynchronous methods run the synchronous ones in a thread.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, Literal, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from relight.errors import RelightError, ThreadBusy, ThreadGone, UnknownType, UsageError
from relight.frameworks.langgraph import naming, runs
from relight.frameworks.langgraph.builder import rebuilt
from relight.frameworks.langgraph.checkpoints import Checkpoints, config_of, new_put, new_writes
from relight.frameworks.langgraph.conversation import AGENT
from relight.frameworks.langgraph.early_writes import Given
from relight.frameworks.langgraph.index import Index, Stored
from relight.frameworks.langgraph.serde import DataSerializer
from relight.frameworks.langgraph.thread import Thread, named_by
from relight.frameworks.langgraph.values import Values
from relight.library.facade import Relight, context_of
from relight.sessions import record_log
from relight.sessions.redacting_store import ALL, REDACT_VARIABLE
from relight.values.status import Status, StatusChange

LEASE_SECONDS: Final = 5.0
WAIT_SECONDS: Final = 30.0
CACHE_BYTES: Final = 64 * 1024 * 1024
_THREADS_KEPT: Final = 4096
_LOOKS_A_CACHE: Final = 64
_LOOK_SECONDS: Final = 0.05

Busy = Literal["refuse", "wait"]


class RelightSaver(BaseCheckpointSaver[int]):
    """A checkpointer whose threads are relight sessions. Thread-safe; one for a whole program.

    `busy`: what happens to a second writer of a thread, refuse it (ThreadBusy) or let it wait in line.
    `finished`: how a thread rests when its run is over; "completed" threads may be swept by retention, "terminated"
    ones are kept until they are deleted.
    """

    def __init__(
        self,
        rl: Relight,
        *,
        types: Iterable[type] = (),
        busy: Busy = "refuse",
        wait_seconds: float = WAIT_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
        finished: Status = "completed",
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        if busy not in ("refuse", "wait"):
            raise UsageError(f"busy is 'refuse' or 'wait', not {busy!r}")
        if finished not in ("completed", "terminated"):
            raise UsageError(f"finished is 'completed' or 'terminated', not {finished!r}")
        self._context = context_of(rl)
        hides = self._context.environment.get(REDACT_VARIABLE) == ALL
        self._values = Values(self._context.redactor if hides else None)
        self._checkpoints = Checkpoints(self._values)
        self._busy, self._wait_seconds = busy, wait_seconds
        self._lease_seconds = lease_seconds
        self._finished: Status = finished
        self._cache_bytes = cache_bytes
        self._threads: OrderedDict[str, Thread] = OrderedDict()
        self._lock = threading.Lock()
        self._grown = 0
        """bytes loaded since the cache was last checked"""
        super().__init__(serde=DataSerializer(self._values))
        for kind in types:
            self.register(kind)
        self._context.heartbeat.before_stop(self.close)

    @property
    def serde(self) -> SerializerProtocol:
        """The saver's codec. It cannot be replaced: values are stored as data and as differences."""
        return self._serde

    @serde.setter
    def serde(self, given: Any) -> None:
        if not isinstance(given, DataSerializer):
            raise UsageError(
                f"RelightSaver stores values by its own codec; {type(given).__name__} would be ignored",
                hints=["to encrypt what is stored, encrypt the disk or the database it lies on"],
            )
        self._serde = given

    def register(self, kind: type) -> type:
        """Register a type before the first value of it: a pydantic model, dataclass, named tuple or enum."""
        self._values.register(kind)
        return kind

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> RelightSaver:
        """Register the types of a graph's schema that the program has imported."""
        for module, *names in extra_allowlist:
            found: Any = sys.modules.get(module)
            for name in names:
                found = getattr(found, name, None)
            if isinstance(found, type):
                try:
                    self._values.register(found)
                except UsageError:
                    continue  # nothing that a channel could hold as data: it is refused when one does
        return self

    def close(self) -> None:
        """Release the leases of this saver. Threads are not changed."""
        with self._lock:
            threads = list(self._threads.values())
        for thread in threads:
            with thread.lock:
                try:
                    thread.leave(StatusChange(status="terminated", reason="left"))
                except RelightError:
                    continue  # it runs out by itself

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- loading ----------------------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """One checkpoint with its state. A run that begins claims the thread's lease here."""
        thread_id, ns, id = _where(config)
        thread = self._thread(thread_id)
        token, nested = runs.token_of(config), runs.is_nested(config)
        if token is not None and not nested:
            with self._turn(thread, token, begins=True, may_create=True):
                return self._load(thread, ns, id, live=True)
        with thread.lock:
            if not thread.look():
                return None
            try:
                return self._load(thread, ns, id, live=token is not None)
            except ThreadGone:
                return None  # deleted just now

    def _load(self, thread: Thread, ns: str, id: str | None, *, live: bool) -> CheckpointTuple | None:
        stored = thread.index.find(ns, id)
        return self._checkpoints.whole(thread, stored, live=live) if stored is not None else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first. Their state is decoded at first access."""
        given = config["configurable"] if config is not None else {}
        ns, id = given.get("checkpoint_ns"), given.get("checkpoint_id")
        below = before["configurable"].get("checkpoint_id") if before is not None else None
        left = limit
        for thread in self._chosen(given.get("thread_id")):
            with thread.lock:
                found = thread.index.newest_first(ns) if thread.look() else []
            for stored in found:
                if left is not None and left <= 0:
                    return
                if (id and stored.id != id) or (below and stored.id >= below):
                    continue
                try:
                    if filter and not self._checkpoints.matches(thread, stored, filter):
                        continue
                except ThreadGone:
                    break  # deleted just now
                if left is not None:
                    left -= 1
                yield self._checkpoints.outline(thread, stored)

    def _chosen(self, thread_id: str | None) -> Iterator[Thread]:
        if thread_id is not None:
            yield self._thread(str(thread_id))
            return
        seen: set[str] = set()
        for one in record_log.list_logs(self._context, agent=AGENT):
            name = naming.thread_of(one.identity)
            if name not in seen:
                seen.add(name)
                thread = self._thread(name)
                yield thread
                self._make_room(thread, thread.index.size_bytes)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The writes to these channels since their nearest stored value, in one walk along the parents."""
        if not channels:
            return {}
        thread_id, ns, id = _where(config)
        thread = self._thread(thread_id)
        with thread.lock:
            stored = thread.index.find(ns, id) if thread.look() else None
            return self._checkpoints.history(thread, stored, channels)

    # -- saving -----------------------------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint as one durable step, whose size is that of the changes."""
        thread_id, ns, parent = _where(config)
        thread = self._thread(thread_id)
        token, nested = runs.token_of(config), runs.is_nested(config)
        whole = get_checkpoint_metadata(config, metadata)
        named = named_by(config, metadata)
        with self._turn(thread, token, nested=nested, named=named, may_create=True):
            for given in thread.early_writes.given_back(ns, checkpoint["id"]):
                self._write(thread, ns, checkpoint["id"], given, token, is_root=False)
            with self._failing(thread, token):
                draft = new_put(thread, self._values, ns, parent, checkpoint, whole, new_versions)
            rests = self._rest_after(thread, token, checkpoint, metadata) if not ns and not nested else None
            seq = thread.append(draft.data, "state", rests=rests)
            draft.saved(thread, seq)
            if rests is not None:
                thread.has_rested(token, rests)
        self._make_room(thread, len(draft.data))
        return config_of(thread_id, ns, checkpoint["id"])

    def _rest_after(
        self, thread: Thread, token: object | None, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> StatusChange | None:
        """The status change after this checkpoint; None while its run continues."""
        if token is None:
            # `update_state` is a single call and releases the lease; a program that saves by itself keeps it.
            is_act = metadata.get("source") == "update"
            return (thread.rested or runs.finished(self._finished)) if is_act else None
        if runs.is_last(checkpoint, metadata):
            return runs.finished(self._finished)
        # Saves may arrive out of order: a checkpoint after the interrupt on top of it, which must not be undone.
        still = thread.rests_still(token)
        return still if still is not None and still.status in ("waiting", "failed") else None

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save the writes of a task as one durable step; no step if all are stored already."""
        thread_id, ns, id = _where(config)
        if id is None:
            raise UsageError("put_writes needs the checkpoint_id that it builds on")
        thread = self._thread(thread_id)
        token, nested = runs.token_of(config), runs.is_nested(config)
        given = Given(task=task_id, path=task_path, writes=tuple(writes))
        if token is None and not nested:
            with thread.lock:
                if thread.early_writes.takes(ns, id, given, may_come=thread.may_come):
                    return
        # Not may_create: a write that comes after the thread was deleted, perhaps by another program, must not bring it
        # back. One that comes before its checkpoint is kept above until that is saved.
        with self._turn(thread, token, nested=nested, named=named_by(config), may_create=False):
            self._write(thread, ns, id, given, token, is_root=not ns and not nested)

    def _write(self, thread: Thread, ns: str, id: str, given: Given, token: object | None, *, is_root: bool) -> None:
        """Commit the new ones of these writes. The lease must be held."""
        numbered = [
            (WRITES_IDX_MAP.get(channel, at), channel, value) for at, (channel, value) in enumerate(given.writes)
        ]
        there = thread.index.written(ns, id)
        fresh = [one for one in numbered if one[0] < 0 or (given.task, one[0]) not in there]
        if not fresh:
            return
        with self._failing(thread, token):
            data = new_writes(self._values, ns, id, given.task, given.path, fresh)
        rests = None
        if is_root:
            rests = runs.rest_after([(channel, value) for _, channel, value in fresh]) or thread.rests_still(token)
        thread.append(data, "mark", rests=rests)
        if rests is not None:
            thread.has_rested(token, rests)

    # -- threads as a whole -----------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread with all its data. A graph that still runs on it is refused at its next write."""
        thread = self._thread(str(thread_id))
        with thread.lock:
            thread.delete()

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of these runs, with their writes, from every thread."""
        going = set(map(str, run_ids))
        if not going:
            return
        for thread in self._chosen(None):
            with thread.lock:
                try:
                    goes = thread.look() and any(self._is_of(thread, one, going) for one in _all(thread.index))
                except ThreadGone:
                    continue  # deleted just now
            if goes:
                self._rewrite(
                    thread, lambda one: [kept for kept in _all(one.index) if not self._is_of(one, kept, going)]
                )

    def _is_of(self, thread: Thread, stored: Stored, run_ids: set[str]) -> bool:
        return str(self._checkpoints.metadata(thread, stored).get("run_id")) in run_ids

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with all checkpoints and writes. Refused if the target has some."""
        source, target = self._thread(str(source_thread_id)), self._thread(str(target_thread_id))
        with source.lock:
            if not source.look():
                return
            records, status = rebuilt(source.index, _all(source.index)), source.status
        with target.lock:
            if target.look():
                if any(target.index.spaces.values()):
                    raise UsageError(f"thread {target.id!r} has checkpoints already; nothing was copied")
                target.delete()
            naming.write_new(self._context, target.id, records, status)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove all checkpoints of threads, or all but the newest of each namespace and what those rely on."""
        if strategy not in ("keep_latest", "delete"):
            raise UsageError(f"strategy is 'keep_latest' or 'delete', not {strategy!r}")
        for thread_id in thread_ids:
            thread = self._thread(str(thread_id))
            if strategy == "delete":
                with thread.lock:
                    thread.delete()
                continue
            with thread.lock:
                if not thread.look() or len(_all(thread.index)) == len(self._checkpoints.latest(thread)):
                    continue
            self._rewrite(thread, self._checkpoints.latest)

    def _rewrite(self, thread: Thread, choose: Callable[[Thread], Sequence[Stored]]) -> None:
        """Replace a thread's session by one with the chosen checkpoints only."""
        with self._turn(thread, None, may_create=False):
            keep = choose(thread)
            thread.replace(rebuilt(thread.index, keep), thread.rested or runs.finished(self._finished))

    def recover(self, thread_id: str) -> RunnableConfig | None:
        """After damage: return to the newest readable checkpoint; its config. Damaged records stay, ignored."""
        thread = self._thread(str(thread_id))

        def read() -> None:
            with suppress(UnknownType):  # to be registered; nothing is damaged
                self._load(thread, "", None, live=False)

        with thread.lock:
            thread.recover(read)
            stored = thread.index.find("", None)
        return config_of(thread.id, "", stored.id) if stored is not None else None

    def get_next_version(self, current: Any, channel: None) -> Any:
        """The next version of a channel: a number, or text in a thread imported from a store that used text."""
        if isinstance(current, str):
            return f"{int(current.partition('.')[0]) + 1:032}.{0:016}"
        return 1 if current is None else current + 1

    # -- whose turn it is -------------------------------------------------------------------------------------

    @contextmanager
    def _turn(
        self,
        thread: Thread,
        token: object | None,
        *,
        nested: bool = False,
        begins: bool = False,
        may_create: bool,
        named: Sequence[str | None] = (),
    ) -> Iterator[None]:
        """Hold the thread and its lease for one caller; wait for it if that is the policy."""
        clock = self._context.clock
        until_us = clock.now_us() + round(self._wait_seconds * 1e6)
        while True:
            with thread.lock:
                try:
                    if named and thread.is_deleted:
                        thread.look()
                        thread.check_named(named)
                    thread.enter(token, nested=nested, begins=begins, may_create=may_create, named=named)
                except ThreadBusy:
                    if self._busy == "refuse" or clock.now_us() >= until_us or thread.is_barred(token):
                        raise
                else:
                    yield
                    return
            clock.sleep(_LOOK_SECONDS)

    @contextmanager
    def _failing(self, thread: Thread, token: object | None) -> Iterator[None]:
        """End a run whose save was refused for its content with that error, and release the lease."""
        try:
            yield
        except UsageError as error:
            if token is not None:
                with suppress(RelightError):  # the refusal matters more
                    thread.leave(runs.failed(error))
            raise

    def _thread(self, thread_id: str) -> Thread:
        with self._lock:
            thread = self._threads.get(thread_id)
            if thread is None:
                thread = Thread(self._context, thread_id, lease_seconds=self._lease_seconds)
                self._threads[thread_id] = thread
            self._threads.move_to_end(thread_id)
            return thread

    def _make_room(self, used: Thread, grown: int) -> None:
        """Evict the least recently used threads from memory; they are read again on demand."""
        with self._lock:
            self._grown += grown
            if self._grown < self._cache_bytes // _LOOKS_A_CACHE and len(self._threads) <= _THREADS_KEPT:
                return
            self._grown = 0
            held = sum(thread.index.size_bytes for thread in self._threads.values())
            for thread_id, thread in list(self._threads.items()):
                if held <= self._cache_bytes and len(self._threads) <= _THREADS_KEPT:
                    return
                if thread is used or not thread.is_idle or thread.holds:
                    continue
                held -= thread.index.size_bytes
                del self._threads[thread_id]

    # -- awaited ----------------------------------------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await runs.in_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        for one in await runs.in_thread(lambda: [*self.list(config, filter=filter, before=before, limit=limit)]):
            yield one

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await runs.in_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await runs.in_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await runs.in_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await runs.in_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await runs.in_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await runs.in_thread(partial(self.prune, thread_ids, strategy=strategy))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await runs.in_thread(partial(self.get_delta_channel_history, config=config, channels=channels))


def _where(config: RunnableConfig) -> tuple[str, str, str | None]:
    """The thread, namespace and checkpoint that a config names."""
    configurable = config.get("configurable") or {}
    if configurable.get("thread_id") is None:
        raise UsageError("the config has no thread_id", hints=['{"configurable": {"thread_id": "..."}}'])
    id = configurable.get("checkpoint_id")
    return str(configurable["thread_id"]), configurable.get("checkpoint_ns") or "", str(id) if id else None


def _all(index: Index) -> list[Stored]:
    return index.newest_first(None)
