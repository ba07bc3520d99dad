"""Queues of sessions, slots that a claim takes, and small records."""

from __future__ import annotations

import msgspec

from relight.errors import QueueFull
from relight.journal.queues.order import QueueRow, queue_row_of
from relight.journal.queues.small_records import pack_record
from relight.testing.store_checks.trial import LEASE_SECONDS, Check, Trial, equal, refused, require
from relight.values.lease import Owner
from relight.values.queues import Queue, QueueKey, QueuePosition, Rate
from relight.values.session import Head, Identity
from relight.values.status import StatusChange
from relight.values.step import Claim, Committed

BATCH = QueueKey("batch")


def enqueue(
    trial: Trial, queue: str = "batch", *, priority: int = 0, wants: tuple[str, ...] = (), wake_us: int | None = None
) -> str:
    """Create a queued session; its id."""
    trial.clock.advance(1.0)
    queue_position = QueuePosition(queue=queue, priority=priority, wants=wants, since_us=trial.clock.now_us())
    identity = Identity(id=trial.entropy.session_id(), created_us=trial.clock.now_us(), queue_position=queue_position)
    trial.store.create(identity, Head(session=identity.id, queue_position=queue_position, wake_us=wake_us))
    return identity.id


def started(trial: Trial, session: str, *, slot: bool = True, gone: bool = False) -> Committed:
    """Claim a session and set it to working, with a slot of its queue."""
    head = trial.head(session)
    claim = Claim(
        owner=Owner(id=f"owner of {session}"),
        seconds=LEASE_SECONDS,
        expected_epoch=head.epoch,
        expected_seq=head.seq,
        owner_gone=gone,
        slot=slot,
    )
    return trial.store.commit(session, trial.draft(kind="attempt", claim=claim, status=StatusChange(status="working")))


def ended(trial: Trial, session: str, change: StatusChange) -> Committed:
    """Release a session with a status change."""
    epoch = trial.head(session).epoch
    return trial.append(session, f"owner of {session}", epoch=epoch, status=change, release=True)


def first(trial: Trial, line: QueueKey = BATCH, limit: int = 10) -> list[str]:
    """The ids of the first sessions in a queue."""
    return [row.session for row in trial.store.list_waiting(line, limit)]


def a_session_is_in_its_queue_exactly_while_queued(trial: Trial) -> None:
    """A session with a queue position is in its queue exactly while its status is queued."""
    session = enqueue(trial)
    trial.begin()
    equal(trial.store.list_queue_keys(), [BATCH], "a queue is listed while a session is in it")
    equal(trial.store.list_waiting(BATCH, 5), [queue_row_of(trial.head(session))], "the row agrees with the head")
    started(trial, session)
    equal(first(trial), [], "a working session is in no queue")
    equal(trial.store.list_queue_keys(), [], "an empty queue is not listed")
    ended(trial, session, StatusChange(status="queued", reason="back"))
    equal(first(trial), [session], "requeued")
    started(trial, session)
    ended(trial, session, StatusChange(status="completed"))
    equal(first(trial), [], "a finished session is in no queue")


def a_queue_is_ordered_by_priority_then_age(trial: Trial) -> None:
    """A queue is ordered by priority, then by age; a session that was requeued keeps its age."""
    low, first_in, second, high = (enqueue(trial, priority=one) for one in (-1, 0, 0, 7))
    equal(first(trial), [high, first_in, second, low], "priority, then age")
    started(trial, first_in)
    ended(trial, first_in, StatusChange(status="queued"))
    equal(first(trial), [high, first_in, second, low], "a requeued session keeps its position")
    equal(first(trial, limit=2), [high, first_in], "no more than the limit")
    equal(first(trial, limit=0), [], "none for a limit of 0")


def queues_are_separate_by_name_and_wanted_labels(trial: Trial) -> None:
    """Sessions that want different worker labels are in different queues."""
    wanted = enqueue(trial, wants=("eu", "gpu"))
    plain, other = enqueue(trial), enqueue(trial, "other")
    lines = [QueueKey("batch"), QueueKey("batch", ("eu", "gpu")), QueueKey("other")]
    equal(trial.store.list_queue_keys(), lines, "all queues, sorted")
    equal([first(trial, line) for line in lines], [[plain], [wanted], [other]], "each with its own sessions")


def a_wake_time_delays_a_session(trial: Trial) -> None:
    """A session with a wake time is not listed before it, and then by priority and age."""
    now = enqueue(trial)
    wake_us = trial.clock.now_us() + 60_000_000
    later = enqueue(trial, priority=5, wake_us=wake_us)
    equal(first(trial), [now], "not before its wake time")
    equal(trial.store.list_queue_keys(), [BATCH], "its queue is listed")
    trial.clock.advance(60.0)
    equal(first(trial), [later, now], "after its wake time, by priority")
    started(trial, later)
    again_us = trial.clock.now_us() + 5_000_000
    ended(trial, later, StatusChange(status="queued", wake_us=again_us))
    equal(first(trial), [now], "a new wake time counts")
    trial.clock.advance(6.0)
    rows = {row.session: row.wake_us for row in trial.store.list_waiting(BATCH, 5)}
    equal(rows, {later: again_us, now: None}, "the rows have the wake times")


def a_queue_position_can_be_changed_with_a_step(trial: Trial) -> None:
    """A step may change the queue position; the queue changes in the same transaction."""
    session = trial.working()
    queue_position = QueuePosition(queue="batch", priority=3, since_us=1)
    trial.append(session, status=StatusChange(status="queued"), queue_position=queue_position, release=True)
    equal(trial.store.list_waiting(BATCH, 5), [QueueRow(BATCH, 3, 1, session, None)], "it is in the queue now")
    moved = msgspec.structs.replace(queue_position, queue="other")
    claim = Claim(owner=Owner(id="op"), seconds=1.0, expected_epoch=trial.head(session).epoch)
    trial.store.commit(session, trial.draft(kind="status", claim=claim, queue_position=moved, release=True))
    equal(first(trial), [], "it left the old queue")
    equal(first(trial, QueueKey("other")), [session], "and is in the other")


def a_refused_step_changes_no_queue(trial: Trial) -> None:
    """A refused step leaves the queues unchanged."""
    session = enqueue(trial)
    refused(lambda: trial.append(session, "stranger", epoch=9, status=StatusChange(status="terminated")), Exception)
    equal(first(trial), [session], "it is still in the queue")


def a_deleted_session_is_in_no_queue(trial: Trial) -> None:
    """A deleted session is in no queue, also after its wake time."""
    session, later = enqueue(trial), enqueue(trial, wake_us=trial.clock.now_us() + 9_000_000)
    trial.store.delete([session, later])
    trial.clock.advance(20.0)
    equal((trial.store.list_queue_keys(), first(trial)), ([], []), "both queues are empty")


def a_rebuilt_head_updates_the_queue(trial: Trial) -> None:
    """Rebuilding a damaged head moves the session to the queue that the new head names."""
    session = enqueue(trial)
    head = trial.head(session)
    if not trial.hooks.break_head(trial.store, session):
        return
    trial.store.rebuild_head(msgspec.structs.replace(head, queue_position=QueuePosition(queue="other", since_us=5)))
    equal((first(trial), first(trial, QueueKey("other"))), ([], [session]), "out of the old queue, into the new one")
    equal(trial.store.check(), [], "the check finds nothing")


def a_queue_limits_concurrency(trial: Trial) -> None:
    """A claim takes a slot, or is refused and writes nothing; the slot is free when its session stops working."""
    trial.store.put_record("queue", "batch", pack_record(Queue(name="batch", concurrency=2)))
    one, two, three = enqueue(trial), enqueue(trial), enqueue(trial)
    started(trial, one)
    started(trial, two)
    trial.unchanged(three, lambda: started(trial, three), QueueFull)
    equal(first(trial), [three], "it stays queued")
    other = enqueue(trial, "other")
    started(trial, other)
    ended(trial, one, StatusChange(status="completed"))
    started(trial, three)
    trial.clock.advance(LEASE_SECONDS + 1)
    four = enqueue(trial)
    trial.unchanged(four, lambda: started(trial, four), QueueFull)  # an owner whose lease is over may still write
    started(trial, four, slot=False)
    started(trial, two, gone=True)  # its own slot
    ended(trial, three, StatusChange(status="queued"))
    ended(trial, two, StatusChange(status="queued"))
    started(trial, three)
    require(trial.head(three).lease is not None, "a requeued session holds no slot")


def a_queue_limits_the_rate_of_starts(trial: Trial) -> None:
    """The number of starts within any period is bounded by the queue's rate, by the store's clock."""
    trial.store.put_record("queue", "batch", pack_record(Queue(name="batch", rate=Rate(starts=2, seconds=60.0))))
    one, two, three = enqueue(trial), enqueue(trial), enqueue(trial)
    started(trial, one)
    trial.clock.advance(20.0)
    started(trial, two)
    trial.unchanged(three, lambda: started(trial, three), QueueFull)
    trial.clock.advance(39.0)
    error = refused(lambda: started(trial, three), QueueFull)
    require(isinstance(error, QueueFull) and 0 < error.again_seconds <= 1.0, "it says when to retry")
    trial.clock.advance(1.5)
    started(trial, three)
    trial.store.put_record("queue", "batch", None)
    started(trial, enqueue(trial))


def records_are_stored_by_kind_and_name(trial: Trial) -> None:
    """Records are stored by kind and name; the latest value counts; None removes."""
    store = trial.store
    store.put_record("worker", "b", b"1")
    store.put_record("worker", "a", bytes(range(256)))
    store.put_record("queue", "a", b"q")
    store.put_record("worker", "b", b"2")
    equal(store.list_records("worker"), {"a": bytes(range(256)), "b": b"2"}, "all of a kind")
    store.put_record("worker", "a", None)
    store.put_record("worker", "a", None)
    equal(
        (store.list_records("worker"), store.list_records("queue")),
        ({"b": b"2"}, {"a": b"q"}),
        "one is gone, the others stay",
    )


def a_record_is_exchanged_by_one_writer(trial: Trial) -> None:
    """Of two concurrent exchanges that expect the same value exactly one succeeds."""
    store = trial.store
    equal(store.exchange_record("note", "n", b"0", b"1"), False, "nothing is there to be exchanged")
    equal(store.list_records("note"), {}, "a refused exchange writes nothing")
    equal(
        [store.exchange_record("note", "n", None, b"1"), store.exchange_record("note", "n", None, b"2")],
        [True, False],
        "the first",
    )
    equal(
        [store.exchange_record("note", "n", b"1", b"3"), store.exchange_record("note", "n", b"1", b"4")],
        [True, False],
        "the next",
    )
    equal(store.list_records("note"), {"n": b"3"}, "what the successful ones wrote")


CHECKS: tuple[Check, ...] = (
    a_session_is_in_its_queue_exactly_while_queued,
    a_queue_is_ordered_by_priority_then_age,
    queues_are_separate_by_name_and_wanted_labels,
    a_wake_time_delays_a_session,
    a_queue_position_can_be_changed_with_a_step,
    a_refused_step_changes_no_queue,
    a_deleted_session_is_in_no_queue,
    a_rebuilt_head_updates_the_queue,
    a_queue_limits_concurrency,
    a_queue_limits_the_rate_of_starts,
    records_are_stored_by_kind_and_name,
    a_record_is_exchanged_by_one_writer,
)
