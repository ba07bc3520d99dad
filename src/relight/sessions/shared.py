"""A session that several programs write to, for frameworks whose processes may append to a conversation at any time.

    enqueue -> (one at a time, in order) -> decide on the fold -> commit; overtaken: catch up, decide again

The lease does not exclude other writers here: it records who wrote last and whether that process lives. A writer that
was overtaken reads what the others wrote, decides again on the new state, and commits under a claim of its own. The
claim names the newest step the decision was based on, so no write is decided on an outdated state: nothing is lost,
doubled or skipped.

Nothing is read or written before the first use. A late write does not recreate a removed session: only a caller that
has read since, and so knows that the session is gone, may begin it again. For processes that never read it, the removal
is remembered for some days under a digest of the name; a write that cannot be the first is then refused.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final, TypeVar

import msgspec

from relight.errors import Conflict, LeaseHeld, LeaseLost, NotFound, NotResumable, RelightError
from relight.files import capture as files_of
from relight.files import repositories, restore
from relight.files.capture import Files, commit_with_files
from relight.history.loading import Found
from relight.journal.chain import broken_links
from relight.journal.codec import decode_changes
from relight.journal.fold import Fold
from relight.journal.leases import claim_on, next_attempt
from relight.journal.queues.small_records import pack_record, unpack_record
from relight.journal.status import derived_status
from relight.operations import remove
from relight.operations.clear import clear
from relight.sessions.context import Context
from relight.sessions.entry.reopening import options_taken, record_options, with_options
from relight.sessions.opening import (
    create,
    evidence_of,
    new_identity,
    recorder_for,
    refresh,
    refuse_archived,
    refuse_untrusted,
)
from relight.sessions.recorder import Recorder
from relight.sessions.reset import reset_to
from relight.system.fork_handlers import reset_after_fork
from relight.values.checkpoint import Checkpoint
from relight.values.lease import Owner
from relight.values.policy import Retry
from relight.values.session import Head
from relight.values.status import StatusChange
from relight.values.step import Changes, Claim, StepKind, View

MAX_TRIES: Final = 200
"""how often a writer may be overtaken in a row; each time, another writer has made progress"""
_READ_TRIES: Final = 3
"""a session may be removed, and another created, between finding and reading it"""
_REMEMBERED_US: Final = 30 * 86_400 * 1_000_000
_MAX_REMEMBERED: Final = 1_000
_PAUSES: Final = Retry(first_seconds=0.001, max_seconds=0.05)
_ENDS_ATTEMPT: Final = frozenset({"terminated", "failed", "halted"})
_T = TypeVar("_T")


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """What a writer wants to commit, decided on the state it was given."""

    changes: Changes
    """for a reset: the messages that replace all others, and the changes of the state"""
    kind: StepKind = "message"
    ends: StatusChange | None = None
    """status to end in, which also releases the lease; None: the session remains `working`"""


Decide = Callable[[Fold], Write | None]
"""None: nothing to write. Called again if another process wrote meanwhile, so it must have no side effects."""


class PendingWrite:
    """A write in the queue of a shared session."""

    def __init__(self, session: SharedSession, decide: Decide, *, begins: bool) -> None:
        self.decide, self.begins = decide, begins
        self.is_done = False
        self.checkpoint: Checkpoint | None = None
        self.error: BaseException | None = None
        self._session = session

    def wait(self) -> Checkpoint | None:
        """Wait until it is durable; None if there was nothing to write."""
        self._session._drain_queue(self)
        if self.error is not None:
            raise self.error
        return self.checkpoint


class SharedSession:
    """One session with many writers. Thread-safe."""

    def __init__(
        self,
        context: Context,
        name: str,
        fields: Mapping[str, Any],
        *,
        workspace: str | os.PathLike[str] | Mapping[str, str] | None = None,
        snapshot: str | float = "step",
        lease_seconds: float,
        begins: bool = True,
    ) -> None:
        """`begins`: the first write creates the session if it does not exist; otherwise that write is refused."""
        self.name = name
        self._context = context
        self._fields = fields
        self._workspace = workspace
        self._moments = snapshot
        self._seconds = lease_seconds
        self._begins = begins
        self._owner: Owner = context.host.owner(context.entropy.session_id())
        self._recorder: Recorder | None = None
        self._files: Files | None = None
        self._queue: deque[PendingWrite] = deque()
        self._lock = threading.RLock()
        reset_after_fork(self)

    def after_fork(self) -> None:
        """In a forked child: another writer, with an empty queue and a reader of its own."""
        self._owner = self._context.host.owner(self._context.entropy.session_id())
        self._recorder = self._files = None
        self._queue.clear()
        self._lock = threading.RLock()

    # -- reading ----------------------------------------------------------------------------------------------

    def read(self, reader: Callable[[Fold, Head], _T]) -> _T | None:
        """Apply `reader` to the newest state; None if there is no such session. The reader must copy what it keeps.

        A caller that finds no session may create it with its next write.
        """
        with self._lock:
            for _ in range(_READ_TRIES):
                recorder = self._opened(may_create=False)
                if recorder is None:
                    break
                try:
                    if recorder.has_unknown_commit:
                        recorder.resolve_unknown("mark")
                    self._catch_up(recorder)
                except NotFound:
                    self.forget()  # removed; another one may exist under the same name by now
                    continue
                return reader(recorder.fold, recorder.head)
            return None

    # -- writing ----------------------------------------------------------------------------------------------

    def enqueue(self, decide: Decide, *, begins: bool = True) -> PendingWrite:
        """Add a write to the queue without waiting; `wait` on the result does the work.

        `begins`: this can be the first write of a session. One that cannot does not recreate a session that was
        removed.
        """
        asked = PendingWrite(self, decide, begins=begins)
        self._queue.append(asked)
        return asked

    def write(self, decide: Decide) -> Checkpoint | None:
        """Commit what is decided on the newest state; None if it decides that there is nothing to write."""
        return self.enqueue(decide).wait()

    def drop(
        self, *, with_forks: bool = False, only_if: Callable[[Fold], bool] | None = None, remembered: bool = False
    ) -> bool:
        """Remove the session with all its bytes, even if it is owned; False if there was none, or if `only_if` rejects
        its newest state.

        A late write of this program does not recreate it; with `remembered`, neither does one of another process that
        says that it cannot be the first.
        """
        with self._lock:
            for failures in range(1, MAX_TRIES + 1):
                found = self._find_by_name()
                if found is None:
                    return False
                try:
                    # Without a lease every writer must claim, and the removal fails on a claim. So no write can be
                    # acknowledged between the check of `only_if` and the removal.
                    self._revoke_lease(found)
                    found = self._found_if(only_if)
                    if found is None:
                        return False
                    if remembered:
                        self._remember_removal()
                    remove.drop(self._context, found, with_forks=with_forks)
                except NotFound:
                    return False
                except (Conflict, LeaseHeld, LeaseLost):
                    self._pause(failures)
                    continue
                self._let_go()
                return True
            raise Conflict(f"{self.name}: other processes kept writing to it; nothing was removed")

    def _found_if(self, only_if: Callable[[Fold], bool] | None) -> Found | None:
        if only_if is None:
            return self._find_by_name()
        recorder = self._opened(may_create=False)
        if recorder is None:
            return None
        self._catch_up(recorder)
        return Found(identity=recorder.identity, head=recorder.head, seq=None) if only_if(recorder.fold) else None

    def _revoke_lease(self, found: Found) -> None:
        recorder, head = self._recorder, found.head
        if head is None or head.lease is None:
            return
        if recorder is not None and recorder.owns and head.lease.owner.id == recorder.owner:
            self._context.store.release(found.identity.id, owner=recorder.owner, epoch=recorder.epoch)
            recorder.owner = ""
        elif not evidence_of(self._context, head).owner_gone:
            clear(self._context, found, why="removed", who="its framework")

    def forget(self) -> None:
        """Drop the cached state; the next use reads the session again, or creates it."""
        with self._lock:
            self._let_go()
            self._recorder = None

    def close(self) -> None:
        """Release the lease if this program holds it. Another use opens the session again."""
        with self._lock:
            recorder = self._recorder
            try:
                if recorder is not None and recorder.owns:
                    left = StatusChange(status="terminated", reason="left")
                    recorder.commit("status", Changes(status=left), release=True)
            except RelightError:
                pass  # the lease expires, as if this program had died
            finally:
                self.forget()

    @property
    def is_idle(self) -> bool:
        """Whether this program holds neither the lease nor queued writes."""
        return not self._queue and (self._recorder is None or not self._recorder.owns)

    # -- the row ----------------------------------------------------------------------------------------------

    def _drain_queue(self, mine: PendingWrite) -> None:
        """Work off the queue up to `mine`: the first waiter to get the lock also writes for those queued before it."""
        with self._lock:
            while not mine.is_done:
                asked = self._queue.popleft()
                try:
                    asked.checkpoint = self._write(asked.decide, asked.begins)
                except BaseException as error:
                    asked.error = error
                    if not isinstance(error, Exception) and asked is not mine:
                        raise  # an interrupt belongs to this thread, not to the one that enqueued the write
                finally:
                    asked.is_done = True

    def _write(self, decide: Decide, begins: bool) -> Checkpoint | None:
        for failures in range(1, MAX_TRIES + 1):
            if not begins and self._recorder is None and self._find_by_name() is None and self._was_removed():
                raise _removed(self.name)
            recorder = self._opened(may_create=True)
            assert recorder is not None
            if recorder.has_unknown_commit:
                earlier = self._recall(recorder, decide(recorder.fold))
                if earlier is not None:
                    return earlier
            if not recorder.owns:
                self._catch_up(recorder)
            wanted = decide(recorder.fold)
            if wanted is None:
                return None
            try:
                self._ensure_attempt(recorder, wanted)
                return self._commit(recorder, wanted)
            except NotFound:
                raise _removed(self.name) from None
            except (LeaseLost, Conflict):
                recorder.owner = ""  # overtaken: owns nothing until it has claimed again
                self._pause(failures)
        raise Conflict(f"{self.name}: other processes kept writing to it; nothing was written", hints=["try again"])

    def _recall(self, recorder: Recorder, before: Write | None) -> Checkpoint | None:
        """Resolve a commit of unknown outcome; its checkpoint if it was this very write."""
        if before is None:
            recorder.resolve_unknown("mark")
            return None
        return recorder.resolve_unknown(before.kind, before.changes)

    # -- removals ---------------------------------------------------------------------------------------------

    def _remember_removal(self) -> None:
        """Record for a while that a session of this name was removed, by a digest of the name."""
        store, now_us = self._context.store, self._context.clock.now_us()
        times = {one: unpack_record(record, int) or 0 for one, record in store.list_records("removed").items()}
        oldest = sorted(times, key=times.__getitem__)[: max(0, len(times) - _MAX_REMEMBERED + 1)]
        for one in {*oldest, *(one for one, at_us in times.items() if at_us < now_us - _REMEMBERED_US)}:
            store.put_record("removed", one, None)
        store.put_record("removed", _digest(self.name), pack_record(now_us))

    def _was_removed(self) -> bool:
        record = self._context.store.list_records("removed").get(_digest(self.name))
        removed_us = unpack_record(record, int) if record is not None else None
        return removed_us is not None and self._context.clock.now_us() - removed_us < _REMEMBERED_US

    # -- the state --------------------------------------------------------------------------------------------

    def _opened(self, *, may_create: bool) -> Recorder | None:
        if self._recorder is not None:
            return self._recorder
        context = self._context
        found = self._find_by_name()
        if found is None and not may_create:
            return None
        if found is None and not self._begins:
            raise _removed(self.name)
        if found is None:
            identity = new_identity(context, self.name, self._fields)
            if self._workspace is not None:
                identity = files_of.fitted(context, identity, self._workspace, self._moments)
            try:
                found = create(context, identity)
            except Conflict:
                found = self._find_by_name()  # another program was faster
                if found is None:
                    raise
        if found.identity.agent != self._fields.get("agent"):
            why = f"it is a session of {found.identity.agent or 'a program'}, not of {self._fields.get('agent')}"
            raise NotResumable(self.name, why, hints=["choose another name"])
        refuse_untrusted(found)
        if may_create:
            refuse_archived(found)
            found = self._with_options(found)
            if self._workspace is not None:
                found = files_of.record_workspace(context, found, self._workspace, self._moments)
        self._recorder = recorder_for(context, found)
        return self._recorder

    def _with_options(self, found: Found) -> Found:
        """Apply the options given by the framework's user from the next step on."""
        said = {what: one for what, one in self._fields.items() if what != "directory"}
        # A framework finds sessions by their names: a fork has its parent's key until it is opened as its own.
        changed = options_taken(found.identity, said, seq=found.whole_head().seq, handed=True)
        record_options(self._context, found.identity.id, changed)
        return Found(identity=with_options(found.identity, changed), head=found.head, seq=found.seq)

    def _find_by_name(self) -> Found | None:
        """By name only: names come from users of the framework, and one may equal the id of another session."""
        record = self._context.store.find_named(self.name)
        return Found(identity=record.identity, head=record.head, seq=None) if record is not None else None

    def _catch_up(self, recorder: Recorder) -> None:
        """Read what other writers appended; everything, if their steps do not simply follow."""
        store, known = self._context.store, recorder.head
        record = store.find(recorder.identity.id)
        if record is None:
            raise _removed(self.name)
        head = Found(identity=record.identity, head=record.head, seq=None).whole_head()
        recorder.lost = None
        if (head.seq, head.digest) == (known.seq, known.digest):
            recorder.head = head
            return
        if self._files is not None:
            self._files.forget_committed()
        steps = list(store.steps(recorder.identity.id, after=known.seq, upto=head.seq))
        follows = head.seq > known.seq == recorder.fold.seq and len(steps) == head.seq - known.seq
        if not follows or any(step.kind == "rewind" for step in steps) or steps[-1].digest != head.digest:
            refresh(self._context, recorder)
            return
        if next(broken_links(steps, after=known.seq, digest=known.digest), None) is not None:
            refresh(self._context, recorder)  # raises Corrupt with the broken step and the newest whole one
            return
        for step, changes in zip(steps, [decode_changes(step.body) for step in steps], strict=True):
            recorder.fold.apply(step, changes)
        recorder.head = head

    # -- committing -------------------------------------------------------------------------------------------

    def _ensure_attempt(self, recorder: Recorder, wanted: Write) -> None:
        """Begin an attempt for a new session and for one whose last writer died or failed; any other simply
        continues."""
        head = recorder.head
        ended = derived_status(head, evidence_of(self._context, head))
        if head.attempt == 0 or ended[0] in _ENDS_ATTEMPT:
            attempt = next_attempt(head, self._owner, ended)
            changes = Changes(attempt=attempt, status=StatusChange(status="working"))
            recorder.commit("attempt", changes, claim=self._claim(head))
        elif wanted.ends is not None and head.status not in ("working", wanted.ends.status):
            working = Changes(status=StatusChange(status="working"))
            recorder.commit("status", working, claim=None if recorder.owns else self._claim(head))
        else:
            return
        self._context.heartbeat.add(recorder)

    def _commit(self, recorder: Recorder, wanted: Write) -> Checkpoint:
        head = recorder.head
        changes, view = wanted.changes, None
        if wanted.kind == "reset":
            reset, view = reset_to(recorder, list(wanted.changes.messages))
            changes = msgspec.structs.replace(reset, state=changes.state, unset=changes.unset, note=changes.note)
        if wanted.ends is not None:
            changes = msgspec.structs.replace(changes, status=wanted.ends)
        elif head.status != "working":
            changes = msgspec.structs.replace(changes, status=StatusChange(status="working"))
        checkpoint = self._with_files(recorder, wanted, changes, view)
        if wanted.ends is not None:
            self._context.heartbeat.remove(recorder)
        else:
            self._context.heartbeat.add(recorder)
        return checkpoint

    def _with_files(self, recorder: Recorder, wanted: Write, changes: Changes, view: View | None) -> Checkpoint:
        claim = None if recorder.owns else self._claim(recorder.head)
        if self._files is None and recorder.identity.workspace:
            self._files = self._open_files(recorder)
        is_reply = self._files is not None and any(
            map(recorder.fold.format_with(changes.messages).is_assistant, changes.messages)
        )
        how: dict[str, Any] = {
            "claim": claim,
            "release": wanted.ends is not None,
            "view": view,
            "given": wanted.changes,
        }
        return commit_with_files(self._files, recorder, wanted.kind, changes, is_reply=is_reply, **how)

    def _open_files(self, recorder: Recorder) -> Files:
        found = Found(identity=recorder.identity, head=recorder.head, seq=None)
        rows = restore.rows_of(self._context, found)
        repositories.tell(self._context, found)  # a hint only: what a framework writes has already happened
        return Files(self._context, recorder.identity, restore.snapshots_at(rows, recorder.head.head))

    def _claim(self, head: Head) -> Claim:
        # Writers do not exclude each other here: the loser of a race reads this write and retries behind it. What
        # protects its decision is the seq that the claim expects.
        return claim_on(head, self._owner, seconds=self._seconds, owner_gone=True)

    def _let_go(self) -> None:
        if self._recorder is not None:
            self._context.heartbeat.remove(self._recorder)
        if self._files is not None:
            self._files.close()
            self._files = None

    def _pause(self, failures: int) -> None:
        self._context.clock.sleep(_PAUSES.delay_seconds(failures, self._context.entropy.jitter()))


def _digest(name: str) -> str:
    return sha256(f"relight removed {name}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _removed(name: str) -> NotFound:
    return NotFound(
        name,
        evidence=["it was removed while this program wrote to it; a late write does not recreate it"],
        hints=["begin a new session, or open this one again"],
    )
