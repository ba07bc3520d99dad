"""A worker: takes sessions from lines, hands each to a process of its own, and puts back what others lost.

    look at the lines  ->  claim, with a slot of the queue  ->  hand over  ->  watch  ->  again

One loop without threads, so that nothing an agent does can hold up what keeps sessions alive: each attempt is attended
by its own process, which takes the lease over and renews it. Dying anywhere costs nothing but time: a session that was
claimed and not handed over, or handed over and lost, is put back in line by the sweep of any worker, this one included.
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
from relight.journal.queues.order import is_queued, matching_queues
from relight.journal.queues.small_records import pack_record, unpack_record
from relight.journal.queues.takeover import MAX_PROGRESS_STEPS, after_loss, loss_reason
from relight.operations.retention import is_sweep_due
from relight.ports import faults
from relight.ports.store import Query
from relight.ports.wakeup import Attendant, Attendants, Ticket, WorkEngine
from relight.sessions.context import Context
from relight.values.queues import Worker
from relight.values.session import Head, Identity
from relight.values.status import LIVE, StatusChange, headline
from relight.values.step import AttemptStart, Changes, Claim, Draft, StepKind

SWEEP_SECONDS: Final = 5.0
SWEEP_SHARE: Final = 0.7
"""of the interval that is promised: the rest is for the claim that follows"""
SLEPT_SHARE: Final = 0.6
"""of a lease: whoever was not at work for so long may see leases that ran out while their owners slept too"""
_AWAKE_SECONDS: Final = 0.5
_NOTICED_SECONDS: Final = 1.0
"""that whoever attends to a program has to say that it died, before others do"""
WAIT_SECONDS: Final = 0.1
_OPERATOR_SECONDS: Final = 1.0
_EARLY_SECONDS: Final = 0.05
"""what a server's answer takes: so much a line may be ahead of us, who read the same clock"""
_AGAIN_SECONDS: Final = 2.0
"""before a session whose attendant could not be started is tried again"""
_AWAY_SECONDS: Final = 0.5
_FORGET_SECONDS: Final = 3600.0
"""a worker that was silent for so long is not listed any more"""

Log = Callable[[str, dict[str, Any]], None]
"""what happened, with its fields; one line each for whoever watches"""


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """A session that is this worker's until its attendant takes it over."""

    session: str
    owner: str
    epoch: int
    attempt: int
    resumed_from: int
    reason: str | None


class Requeued(msgspec.Struct, frozen=True, kw_only=True):
    """A session whose owner was lost, and what became of it."""

    session: str
    change: StatusChange
    resumed_from: int


def claim(context: Context, identity: Identity, head: Head, *, seconds: float) -> Claimed | None:
    """Take a queued session for an attendant: lease, attempt and slot in one commit. None where somebody was faster.

    QueueFull where its queue lets no further one work now: it stays in line.
    """
    if not is_queued(head) or head.place is None:
        return None
    if head.wake_us is not None and head.wake_us > context.queue_time_us() + _EARLY_SECONDS * 1e6:
        return None  # an old hint: its time has not come
    owner = context.host.owner(context.entropy.session_id())
    attempt = AttemptStart(
        number=head.attempt + 1,
        resumed_from=head.head,
        reason=None if head.attempt == 0 else f"{head.status}: {headline(head.reason)}" if head.reason else head.status,
        owner=owner.label,
    )
    asked = Claim(
        owner=owner, seconds=seconds, expected_epoch=head.epoch, expected_seq=head.seq, slot=True, owner_gone=False
    )
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
    """Put every session back in line whose owner is lost. Any number of workers may do so at once: one of them wins.

    Those that are `attended` have somebody who says how they ended; they are left to him while their lease lasts. So
    is one whose process was seen to be dead for the first time, as another worker's attendant may be about to start it
    again, and he counts its deaths: sessions `noticed` at a look, with their seq, are put back by the next.
    """
    found: list[Requeued] = []
    dying: dict[str, int] = {}
    for record in every_session(context.store, Query(statuses=LIVE)):
        head = record.head
        if head is None or (head.session in attended and _lasts(context, head)):
            continue
        if _has_died_early(context, head) and noticed.get(head.session) != head.seq:
            dying[head.session] = head.seq
            continue
        put = recover_one(context, record.identity, head)
        if put is not None:
            found.append(put)
    return found, dying


def _lasts(context: Context, head: Head) -> bool:
    return head.lease is not None and not head.lease.expired(context.store.instant())


def _has_died_early(context: Context, head: Head) -> bool:
    """Before its lease ran out, of a session that stands in line again once it is put back."""
    if head.place is None or head.lease is None or not context.host.is_gone(head.lease.owner):
        return False
    return _lasts(context, head)


def recover_one(context: Context, identity: Identity, head: Head) -> Requeued | None:
    """The same for one; None where it is owned, stands in no line, is damaged, or somebody else was faster."""
    gone = context.host.is_gone(head.lease.owner) if head.lease is not None else None
    why = loss_reason(head, owner_gone=gone, now=context.store.instant())
    if why is None:
        return None
    claim = Claim(
        owner=context.host.owner(context.entropy.session_id()),
        seconds=_OPERATOR_SECONDS,
        expected_epoch=head.epoch,
        expected_seq=head.seq,
        owner_gone=bool(gone),
    )
    faults.point("recover.planned")
    try:
        change = _change_after(context, identity, head, why)
        _commit(context, head, Changes(status=change, note={"taken_from": why}), "status", claim, release=True)
    except (Conflict, LeaseHeld, LeaseLost, NotFound, Corrupt):
        return None
    faults.point("recover.written")
    return Requeued(session=identity.id, change=change, resumed_from=head.head)


def requeue(context: Context, session: str, owner: str, why: str) -> Requeued | None:
    """A session this worker claimed and nobody took over goes back in line; where its attendant died later, too.

    A damaged one is left as it is: whoever lists it is told, and nobody else has to wait for it."""
    try:
        return _hand_back(context, session, owner, why)
    except (LeaseLost, NotFound, Corrupt):
        return None


def _hand_back(context: Context, session: str, owner: str, why: str) -> Requeued | None:
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
    speaks = context.agent(identity).capabilities.transcript
    return after_loss(identity, head, why, latest=latest, speaks=speaks, retries=retries_of(context, identity, head))


def retries_of(context: Context, identity: Identity, head: Head) -> int | None:
    """How many deaths it may survive: what it says itself, else what its queue says."""
    if identity.policy.retries is not None or head.place is None:
        return identity.policy.retries
    queue = find_queue(context, head.place.queue)
    return queue.retries if queue is not None else None


def _commit(
    context: Context, head: Head, changes: Changes, kind: StepKind, claim: Claim, *, release: bool = False
) -> None:
    """One step that nobody's state is needed for: no message is read to write it."""
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
    """A session in the hands of an attendant."""

    ticket: Ticket
    attendant: Attendant
    claimed: Claimed | None
    renewed_us: int
    taken_over: bool
    """does its attendant, or its program, hold the lease by now?"""


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker was told to be."""

    name: str
    queues: tuple[str, ...]
    labels: tuple[str, ...] = ()
    concurrency: int = 1
    lease_seconds: float = 30.0
    sweep_seconds: float = SWEEP_SECONDS
    retention: bool = True
    """remove what retention says is over, once a day"""


class WorkLoop:
    """One worker. `step` is one round; `run` goes on until it has drained. Not thread-safe."""

    def __init__(
        self, context: Context, engine: WorkEngine, attendants: Attendants, options: WorkerOptions, log: Log
    ) -> None:
        self._context = context
        self._engine = engine
        self._attendants = attendants
        self._options = options
        self._log = log
        self._running: dict[str, Running] = {}
        self._tidying: Attendant | None = None
        self._full_until: dict[str, int] = {}
        """queue to when it is worth asking again"""
        self._asked = 0
        """how often it was asked to stop"""
        self._told = 0
        self._finished = 0
        self._started_us = context.clock.now_us()
        self._sweep_us = 0
        self._noticed: dict[str, int] = {}
        """sessions whose process was seen to be dead at the last sweep, and their seq"""
        self._stepped_us = context.clock.instant().us
        self._away = False
        self._looked = False
        """has it seen that there is nothing for it, and did nothing change since?"""
        self._took = False

    @property
    def running(self) -> tuple[str, ...]:
        """Ids of the sessions in its hands."""
        return tuple(self._running)

    def stop(self) -> None:
        """From a signal handler: take nothing more, put what runs back in line; a second time: at once."""
        self._asked += 1

    def run(self, *, until_empty: bool = False) -> None:
        """Until it was asked to stop, or there is nothing left to do, and nothing runs any more."""
        while self._running or not (self._asked or (until_empty and self._is_empty())):
            self.step()
        self._deregister()
        self._attendants.close()
        self._engine.close()

    def _is_empty(self) -> bool:
        """Does nobody stand in its lines, due or not, and is nobody of its queues at work elsewhere?"""
        context, options = self._context, self._options
        try:
            if matching_queues(context.store.list_queue_keys(), options.queues, options.labels):
                return False
            return not any(
                record.head is not None and record.head.place is not None and record.head.place.queue in options.queues
                for record in every_session(context.store, Query(statuses=LIVE))
            )
        except RelightError:
            return False  # the store is away

    def step(self) -> None:
        """One round. A store that is away for a while costs nothing but time."""
        self._pass_on()
        try:
            self._reap()
            self._sweep()
            if not self._asked and len(self._running) < self._options.concurrency:
                self._fill()
            self._looked = not self._engine.wait(WAIT_SECONDS) and not self._took
            self._away = False
        except RelightError as error:
            if not self._away:
                self._log("store away", {"error": str(error)})
            self._away, self._looked = True, False
            self._context.clock.sleep(_AWAY_SECONDS)

    # -- taking -----------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        context, options = self._context, self._options
        now_us = context.clock.instant().us
        self._full_until = {queue: until_us for queue, until_us in self._full_until.items() if until_us > now_us}
        if self._looked:
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
            told = {"attempt": claimed.attempt, "from_seq": claimed.resumed_from, "reason": claimed.reason or "first"}
            self._log("resume" if claimed.attempt > 1 else "start", {"session": ticket.session, **told})
        elif not is_queued(head):
            self._engine.close_ticket(ticket)
            return
        self._start(ticket, identity, head, claimed)

    def _start(self, ticket: Ticket, identity: Identity, head: Head, claimed: Claimed | None) -> None:
        """Without a claim where its workspace is not here: its attendant brings the files first, and then claims."""
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
                self._let_go(session, one, code)
            except RelightError as error:
                if not (self._asked and self._away):
                    raise  # it is tried again
                self._log("left", {"session": session, "error": str(error)})  # to the sweep of whoever finds the store
            del self._running[session]
            self._finished += 1
            self._looked = False
        if self._tidying is not None and self._tidying.poll() is not None:
            self._tidying = None

    def _let_go(self, session: str, one: Running, code: int) -> None:
        owner = one.claimed.owner if one.claimed is not None else ""
        put = requeue(self._context, session, owner, f"its attendant ended (exit code {code})")
        self._engine.close_ticket(one.ticket)
        self._tell_end(session, put)

    def _renew(self, one: Running) -> None:
        """A process takes its time to start: until it has taken the lease over, this worker renews it."""
        now_us, claimed = self._context.clock.instant().us, one.claimed
        if one.taken_over or claimed is None or now_us - one.renewed_us < self._options.lease_seconds / 3 * 1e6:
            return
        one.renewed_us = now_us
        try:
            self._context.store.renew(claimed.session, owner=claimed.owner, epoch=claimed.epoch)
        except (LeaseLost, NotFound, Corrupt):
            one.taken_over = True

    def _tell_end(self, session: str, put: Requeued | None) -> None:
        try:
            record = self._context.store.find(session)
        except Corrupt as error:
            self._log("ended", {"session": session, "status": "damaged", "reason": str(error)})
            return
        head = record.head if record is not None else None
        fields = {"session": session, "status": head.status if head is not None else "gone"}
        if head is not None:
            fields |= {"seq": str(head.seq), "reason": headline(head.reason)}
        self._log("lost" if put is not None else "ended", fields)

    def _pass_on(self) -> None:
        """Once for each time it was asked, to everybody."""
        while self._told < self._asked:
            self._told += 1
            self._log("draining", {"running": len(self._running)})
            for one in self._running.values():
                one.attendant.drain()
            self._sweep_us = 0  # say so at once

    # -- sweeping ---------------------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        """Say that this worker lives, and put back what is lost, its own and that of others."""
        now_us = self._context.clock.instant().us
        slept = now_us - self._stepped_us > self._options.lease_seconds * SLEPT_SHARE * 1e6
        self._stepped_us = now_us
        if now_us < self._sweep_us:
            return
        self._sweep_us = now_us + round(self._options.sweep_seconds * SWEEP_SHARE * 1e6)
        self._say_hello()
        self._looked = False
        if slept:  # a closed lid, a stop: owners that slept as well renew their leases in a moment
            self._sweep_us = now_us + round(_AWAKE_SECONDS * 1e6)
            return
        found, self._noticed = recover(self._context, attended=self._running, noticed=self._noticed)
        if self._noticed:
            self._sweep_us = min(self._sweep_us, now_us + round(_NOTICED_SECONDS * 1e6))
        for put in found:
            told = {"status": put.change.status, "from_seq": put.resumed_from, "reason": headline(put.change.reason)}
            self._log("taken over", {"session": put.session, **told})
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

    def _say_hello(self) -> None:
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
            draining=bool(self._asked),
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
            self._log("store away", {"error": str(error)})  # the others forget it after a while

    def _tidy(self) -> None:
        """Clear away records of workers long dead; where the store has a policy, begin the sweep of the day. Of many
        workers whose processes begin one, one claims it."""
        context = self._context
        now = context.store.instant()
        for name, record in context.store.list_records("worker").items():
            worker = unpack_record(record, Worker)
            fresh = worker is not None and worker.seen.timeline == now.timeline
            if worker is None or not fresh or now.us - worker.seen.us > _FORGET_SECONDS * 1e6:
                context.store.put_record("worker", name, None)
        if not self._options.retention or self._tidying is not None:
            return
        if is_sweep_due(context):
            try:
                self._tidying = self._attendants.tidy()
            except OSError as error:  # no more processes: it is tried again tomorrow, sessions go before
                self._log("not started", {"what": "retention", "error": str(error)})
                return
            self._log("retention", {})
