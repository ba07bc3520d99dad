"""Worker: claims queued sessions, passes each to an attendant process, and requeues sessions whose owner was lost.

    read the queues  ->  claim, with a slot of the queue  ->  hand over to an attendant  ->  watch  ->  again

One loop without threads, so that no agent can delay heartbeats: each attempt is supervised by its own process, which
takes the lease over and renews it. A death anywhere costs only time: a session that was claimed and not handed over, or
handed over and lost, is requeued by the sweep of any worker, this one included.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from relight.errors import Conflict, Corrupt, LeaseHeld, LeaseLost, NotFound, QueueFull, RelightError
from relight.files.status import missing_roots
from relight.fleet.queues import find_queue
from relight.history.listing import every_session
from relight.journal.codec import encode_changes
from relight.journal.leases import claim_on, next_attempt
from relight.journal.queues.order import is_queued, matching_queues
from relight.journal.queues.small_records import pack_record, unpack_record
from relight.journal.queues.takeover import MAX_PROGRESS_STEPS, after_loss, loss_reason
from relight.operations.retention import is_sweep_due
from relight.ports import faults
from relight.ports.store import Query
from relight.ports.wakeup import Attendant, Attendants, Ticket, WorkEngine
from relight.sessions.context import Context
from relight.supervision.pause import paused
from relight.values.queues import Worker
from relight.values.session import Head, Identity
from relight.values.status import LIVE, StatusChange, headline
from relight.values.step import Changes, Claim, Draft, StepKind

SWEEP_SECONDS: Final = 5.0
SWEEP_SHARE: Final = 0.7
"""share of the documented sweep interval; the rest is for the claim that follows"""
SLEPT_SHARE: Final = 0.6
"""share of a lease: after a pause this long, other owners may have been suspended too"""
_AWAKE_SECONDS: Final = 0.5
_NOTICED_SECONDS: Final = 1.0
"""time for an attendant to report its program's death before a sweep requeues the session"""
WAIT_SECONDS: Final = 0.1
_OPERATOR_SECONDS: Final = 1.0
_EARLY_SECONDS: Final = 0.05
"""round trip to the server: a queue's clock may be this far ahead of the time we read"""
_AGAIN_SECONDS: Final = 2.0
"""before a session whose attendant could not be started is tried again"""
_AWAY_SECONDS: Final = 0.5
_FORGET_SECONDS: Final = 3600.0
"""after so long without a heartbeat a worker's record is removed"""

Log = Callable[[str, dict[str, Any]], None]
"""an event and its fields; printed as one line each"""


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """A session that this worker owns until its attendant takes the lease over."""

    session: str
    owner: str
    epoch: int
    attempt: int
    resumed_from: int
    reason: str | None


class Requeued(msgspec.Struct, frozen=True, kw_only=True):
    """A session whose owner was lost, and its new status."""

    session: str
    change: StatusChange
    resumed_from: int


def claim(context: Context, identity: Identity, head: Head, *, seconds: float) -> Claimed | None:
    """Claim a queued session: lease, attempt and slot in one commit. None if another worker was faster.

    QueueFull if its queue has no free slot: it stays queued.
    """
    if not is_queued(head) or head.queue_position is None:
        return None
    if head.wake_us is not None and head.wake_us > context.queue_time_us() + _EARLY_SECONDS * 1e6:
        return None  # a stale hint: its wake time has moved since
    owner = context.host.owner(context.entropy.session_id())
    attempt = next_attempt(head, owner, (head.status, head.reason))
    asked = claim_on(head, owner, seconds=seconds, owner_gone=False, slot=True)
    faults.point("worker.planned")
    try:
        _commit(context, head, Changes(attempt=attempt, status=StatusChange(status="spawning")), "attempt", asked)
    except (Conflict, LeaseHeld, LeaseLost, NotFound, Corrupt):
        return None
    faults.point("worker.claimed")
    return Claimed(
        session=identity.id,
        owner=owner.id,
        epoch=head.epoch + 1,
        attempt=attempt.number,
        resumed_from=attempt.resumed_from,
        reason=attempt.reason,
    )


def recover(
    context: Context, *, attended: Collection[str], noticed: Mapping[str, int]
) -> tuple[list[Requeued], dict[str, int]]:
    """Requeue every session whose owner was lost; those, and the sessions to recheck. Several workers may do this at
    once: one of them wins.

    Sessions in `attended` are left to their attendant while their lease lasts. `noticed` are sessions, with their seq,
    whose process was found dead by the previous call.
    """
    found: list[Requeued] = []
    dying: dict[str, int] = {}
    for record in every_session(context.store, Query(statuses=LIVE)):
        head = record.head
        if head is None or (head.session in attended and _lasts(context, head)):
            continue
        # Its supervisor, on behalf of another worker, may be about to restart the program, and counts its deaths. So
        # a session is requeued only if the next sweep still finds it dead at the same seq.
        if _has_died_early(context, head) and noticed.get(head.session) != head.seq:
            dying[head.session] = head.seq
            continue
        requeued = recover_one(context, record.identity, head)
        if requeued is not None:
            found.append(requeued)
    return found, dying


def _lasts(context: Context, head: Head) -> bool:
    return head.lease is not None and not head.lease.expired(context.store.instant())


def _has_died_early(context: Context, head: Head) -> bool:
    """Whether the owner's process is dead although its lease lasts, in a session that can be requeued."""
    if head.queue_position is None or head.lease is None or not context.host.is_gone(head.lease.owner):
        return False
    return _lasts(context, head)


def recover_one(context: Context, identity: Identity, head: Head) -> Requeued | None:
    """Requeue one session whose owner was lost; None if it is owned, not queueable, damaged, or already requeued."""
    gone = context.host.is_gone(head.lease.owner) if head.lease is not None else None
    why = loss_reason(head, owner_gone=gone, now=context.store.instant())
    if why is None:
        return None
    owner = context.host.owner(context.entropy.session_id())
    claim = claim_on(head, owner, seconds=_OPERATOR_SECONDS, owner_gone=bool(gone))
    faults.point("recover.planned")
    try:
        change = _change_after(context, identity, head, why)
        _commit(context, head, Changes(status=change, note={"taken_from": why}), "status", claim, release=True)
    except (Conflict, LeaseHeld, LeaseLost, NotFound, Corrupt):
        return None
    faults.point("recover.written")
    return Requeued(session=identity.id, change=change, resumed_from=head.head)


def requeue(context: Context, session: str, owner: str, why: str) -> Requeued | None:
    """Requeue a session whose attendant has ended, whether or not it took the lease over; None if it needs no requeue.

    A damaged session is left as it is: lists show the damage, and other sessions must not wait for it."""
    try:
        return _requeue(context, session, owner, why)
    except (LeaseLost, NotFound, Corrupt):
        return None


def _requeue(context: Context, session: str, owner: str, why: str) -> Requeued | None:
    record = context.store.find(session)
    if record is None or record.head is None:
        return None
    identity, head = record.identity, record.head
    if head.lease is None or head.lease.owner.id != owner:
        return recover_one(context, identity, head)
    change = _change_after(context, identity, head, why)
    if change.status == "queued":
        wake_us = context.queue_time_us() + round(_AGAIN_SECONDS * 1e6)
        change = msgspec.structs.replace(change, wake_us=wake_us)
    changes = context.redacted_changes(Changes(status=change))
    draft = Draft(
        kind="status",
        body=encode_changes(changes),
        key=context.entropy.key(),
        owner=owner,
        epoch=head.epoch,
        release=True,
        status=changes.status,
    )
    context.store.commit(session, draft)
    return Requeued(session=session, change=change, resumed_from=head.head)


def _change_after(context: Context, identity: Identity, head: Head, why: str) -> StatusChange:
    latest = list(context.store.steps(identity.id, after=max(0, head.seq - MAX_PROGRESS_STEPS)))
    has_transcript = context.agent(identity).capabilities.transcript
    return after_loss(
        identity, head, why, latest=latest, has_transcript=has_transcript, retries=retries_of(context, identity, head)
    )


def retries_of(context: Context, identity: Identity, head: Head) -> int | None:
    """How many deaths without progress are retried: by the session's own policy, else by its queue's."""
    if identity.policy.retries is not None or head.queue_position is None:
        return identity.policy.retries
    queue = find_queue(context, head.queue_position.queue)
    return queue.retries if queue is not None else None


def _commit(
    context: Context, head: Head, changes: Changes, kind: StepKind, claim: Claim, *, release: bool = False
) -> None:
    """Commit a step directly, without folding the session's journal first: a worker needs no messages."""
    changes = context.redacted_changes(changes)
    draft = Draft(
        kind=kind,
        body=encode_changes(changes),
        key=context.entropy.key(),
        claim=claim,
        release=release,
        status=changes.status,
        attempt=changes.attempt,
    )
    context.store.commit(head.session, draft)


class Running(msgspec.Struct):
    """A session that an attendant supervises."""

    ticket: Ticket
    attendant: Attendant
    claimed: Claimed | None
    renewed_us: int
    taken_over: bool
    """whether the attendant or its program holds the lease"""


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a worker."""

    name: str
    queues: tuple[str, ...]
    labels: tuple[str, ...] = ()
    concurrency: int = 1
    lease_seconds: float = 30.0
    sweep_seconds: float = SWEEP_SECONDS
    retention: bool = True
    """apply the retention policy once a day"""


class WorkLoop:
    """One worker. `step` is one round; `run` loops until it has drained. Not thread-safe."""

    def __init__(
        self, context: Context, engine: WorkEngine, attendants: Attendants, options: WorkerOptions, log: Log
    ) -> None:
        self._context = context
        self._engine = engine
        self._attendants = attendants
        self._options = options
        self._log = log
        self._running: dict[str, Running] = {}
        self._retention: Attendant | None = None
        self._full_until: dict[str, int] = {}
        """queue without a free slot, to the instant of the next try"""
        self._stop_requests = 0
        """number of calls of `stop`"""
        self._stops_forwarded = 0
        self._finished = 0
        self._started_us = context.clock.now_us()
        self._sweep_us = 0
        self._noticed: dict[str, int] = {}
        """sessions whose process was dead at the last sweep, and their seq"""
        self._stepped_us = context.clock.instant().us
        self._away = False
        self._is_idle = False
        """whether the last read found no session to take, and nothing changed since"""
        self._took = False

    @property
    def running(self) -> tuple[str, ...]:
        """Ids of the sessions that its attendants supervise."""
        return tuple(self._running)

    def stop(self) -> None:
        """Claim nothing more and requeue what runs; called again, kill it. May be called from a signal handler."""
        self._stop_requests += 1

    def run(self, *, until_empty: bool = False) -> None:
        """Loop until stopped, or with `until_empty` until its queues are empty, and until no session runs."""
        while self._running or not (self._stop_requests or (until_empty and self._is_empty())):
            self.step()
        self._deregister()
        self._attendants.close()
        self._engine.close()

    def _is_empty(self) -> bool:
        """Whether no session of its queues is queued, due or not, or running anywhere."""
        context, options = self._context, self._options
        try:
            if matching_queues(context.store.list_queue_keys(), options.queues, options.labels):
                return False
            return not any(
                record.head is not None
                and record.head.queue_position is not None
                and record.head.queue_position.queue in options.queues
                for record in every_session(context.store, Query(statuses=LIVE))
            )
        except RelightError:
            return False  # the store is away

    def step(self) -> None:
        """One round. While the store is unavailable it only waits."""
        self._forward_stops()
        try:
            self._reap()
            self._sweep()
            if not self._stop_requests and len(self._running) < self._options.concurrency:
                self._fill()
            self._is_idle = not self._engine.wait(WAIT_SECONDS) and not self._took
            self._away = False
        except RelightError as error:
            if not self._away:
                self._log("store away", {"error": str(error)})
            self._away, self._is_idle = True, False
            self._context.clock.sleep(_AWAY_SECONDS)

    # -- taking -----------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        context, options = self._context, self._options
        now_us = context.clock.instant().us
        self._full_until = {queue: until_us for queue, until_us in self._full_until.items() if until_us > now_us}
        if self._is_idle:
            return
        if paused(context) is not None:
            self._took = True  # looked at again in the next round
            return
        lines = matching_queues(context.store.list_queue_keys(), options.queues, options.labels)
        lines = [line for line in lines if line.queue not in self._full_until]
        free = options.concurrency - len(self._running)
        tickets = self._engine.take(lines, free) if lines else []
        for ticket in tickets:
            self._take(ticket)
        self._took = bool(tickets or self._full_until)

    def _take(self, ticket: Ticket) -> None:
        context = self._context
        record = context.store.find(ticket.session)
        if record is None or record.head is None or ticket.session in self._running:
            self._engine.close_ticket(ticket)
            return
        identity, head = record.identity, record.head
        claimed: Claimed | None = None
        if not missing_roots(identity):
            try:
                claimed = claim(context, identity, head, seconds=self._options.lease_seconds)
            except QueueFull as full:
                now_us = context.clock.instant().us
                self._full_until[full.queue] = now_us + round(full.again_seconds * 1e6)
                self._engine.postpone(ticket, full.again_seconds)
                return
            if claimed is None:
                self._engine.close_ticket(ticket)
                return
            fields = {"attempt": claimed.attempt, "from_seq": claimed.resumed_from, "reason": claimed.reason or "first"}
            self._log("resume" if claimed.attempt > 1 else "start", {"session": ticket.session, **fields})
        elif not is_queued(head):
            self._engine.close_ticket(ticket)
            return
        self._start(ticket, identity, head, claimed)

    def _start(self, ticket: Ticket, identity: Identity, head: Head, claimed: Claimed | None) -> None:
        """Start an attendant. `claimed` is None if the workspace is not on this machine: the attendant restores the
        files first and claims afterwards, so that a long restore holds no slot."""
        owner = claimed.owner if claimed is not None else None
        try:
            retries = retries_of(self._context, identity, head)
            attendant = self._attendants.start(ticket.session, owner=owner, retries=retries)
        except OSError as error:
            self._log("not started", {"session": ticket.session, "error": str(error)})
            if owner is not None:
                requeue(self._context, ticket.session, owner, f"its worker could not start it: {error}")
            self._engine.close_ticket(ticket)
            return
        now_us = self._context.clock.instant().us
        self._running[ticket.session] = Running(ticket, attendant, claimed, now_us, claimed is None)

    # -- watching ---------------------------------------------------------------------------------------------------

    def _reap(self) -> None:
        for session, one in list(self._running.items()):
            code = one.attendant.poll()
            if code is None:
                self._renew(one)
                continue
            try:
                self._finish(session, one, code)
            except RelightError as error:
                if not (self._stop_requests and self._away):
                    raise  # tried again in the next round
                # We are stopping and the store is unavailable: leave it to the sweep of another worker.
                self._log("left", {"session": session, "error": str(error)})
            del self._running[session]
            self._finished += 1
            self._is_idle = False
        if self._retention is not None and self._retention.poll() is not None:
            self._retention = None

    def _finish(self, session: str, one: Running, code: int) -> None:
        owner = one.claimed.owner if one.claimed is not None else ""
        requeued = requeue(self._context, session, owner, f"its attendant ended (exit code {code})")
        self._engine.close_ticket(one.ticket)
        self._log_end(session, requeued)

    def _renew(self, one: Running) -> None:
        """Renew the lease until the attendant, which takes time to start, has taken it over."""
        now_us, claimed = self._context.clock.instant().us, one.claimed
        if one.taken_over or claimed is None or now_us - one.renewed_us < self._options.lease_seconds / 3 * 1e6:
            return
        one.renewed_us = now_us
        try:
            self._context.store.renew(claimed.session, owner=claimed.owner, epoch=claimed.epoch)
        except (LeaseLost, NotFound, Corrupt):
            one.taken_over = True

    def _log_end(self, session: str, requeued: Requeued | None) -> None:
        try:
            record = self._context.store.find(session)
        except Corrupt as error:
            self._log("ended", {"session": session, "status": "damaged", "reason": str(error)})
            return
        head = record.head if record is not None else None
        fields = {"session": session, "status": head.status if head is not None else "gone"}
        if head is not None:
            fields |= {"seq": str(head.seq), "reason": headline(head.reason)}
        self._log("lost" if requeued is not None else "ended", fields)

    def _forward_stops(self) -> None:
        """Drain all attendants once per call of `stop`; here, because `stop` may run in a signal handler."""
        while self._stops_forwarded < self._stop_requests:
            self._stops_forwarded += 1
            self._log("draining", {"running": len(self._running)})
            for one in self._running.values():
                one.attendant.drain()
            self._sweep_us = 0  # so that the worker's record shows it as draining at once

    # -- sweeping ---------------------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        """Write this worker's heartbeat, and requeue lost sessions, its own and those of others."""
        now_us = self._context.clock.instant().us
        slept = now_us - self._stepped_us > self._options.lease_seconds * SLEPT_SHARE * 1e6
        self._stepped_us = now_us
        if now_us < self._sweep_us:
            return
        self._sweep_us = now_us + round(self._options.sweep_seconds * SWEEP_SHARE * 1e6)
        self._register()
        self._is_idle = False
        if slept:
            # This machine was suspended, and other owners on it as well: their leases look expired, but they will be
            # renewed in a moment. Taking them over now would kill living sessions.
            self._sweep_us = now_us + round(_AWAKE_SECONDS * 1e6)
            return
        found, self._noticed = recover(self._context, attended=self._running, noticed=self._noticed)
        if self._noticed:
            self._sweep_us = min(self._sweep_us, now_us + round(_NOTICED_SECONDS * 1e6))
        for one in found:
            fields = {"status": one.change.status, "from_seq": one.resumed_from, "reason": headline(one.change.reason)}
            self._log("taken over", {"session": one.session, **fields})
        closed = self._engine.sweep(self._is_at_work)
        if closed:
            self._log("tickets closed", {"count": closed})
        self._tidy()

    def _is_at_work(self, session: str) -> bool:
        record = self._context.store.find(session)
        head = record.head if record is not None else None
        if head is None or head.status not in LIVE or head.lease is None:
            return False
        return not head.lease.expired(self._context.store.instant())

    def _register(self) -> None:
        context, options = self._context, self._options
        owner = context.host.owner("")
        worker = Worker(
            name=options.name,
            host=owner.host,
            pid=owner.pid,
            engine=self._engine.name,
            queues=options.queues,
            labels=options.labels,
            concurrency=options.concurrency,
            running=tuple(self._running),
            draining=bool(self._stop_requests),
            started_us=self._started_us,
            seen=context.store.instant(),
            sweep_seconds=options.sweep_seconds,
            finished=self._finished,
        )
        context.store.put_record("worker", options.name, pack_record(worker))

    def _deregister(self) -> None:
        try:
            self._context.store.put_record("worker", self._options.name, None)
        except RelightError as error:
            self._log("store away", {"error": str(error)})  # other workers remove the record later

    def _tidy(self) -> None:
        """Remove records of dead workers, and start the daily retention sweep if it is due. Several workers may start
        one; the sweeps agree in the store which of them runs."""
        context = self._context
        now = context.store.instant()
        for name, record in context.store.list_records("worker").items():
            worker = unpack_record(record, Worker)
            fresh = worker is not None and worker.seen.timeline == now.timeline
            if worker is None or not fresh or now.us - worker.seen.us > _FORGET_SECONDS * 1e6:
                context.store.put_record("worker", name, None)
        if not self._options.retention or self._retention is not None:
            return
        if is_sweep_due(context):
            try:
                self._retention = self._attendants.tidy()
            except OSError as error:  # no process available: sessions matter more, retention is tried again later
                self._log("not started", {"what": "retention", "error": str(error)})
                return
            self._log("retention", {})
