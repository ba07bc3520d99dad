"""Promises about lines of queued sessions, about slots that are taken with a claim, and about small records."""

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


def standing(
    trial: Trial, queue: str = "batch", *, priority: int = 0, wants: tuple[str, ...] = (), wake_us: int | None = None
) -> str:
    """A new session that stands in line."""
    trial.clock.advance(1.0)
    place = QueuePosition(queue=queue, priority=priority, wants=wants, since_us=trial.clock.now_us())
    identity = Identity(id=trial.entropy.session_id(), created_us=trial.clock.now_us(), place=place)
    trial.store.create(identity, Head(session=identity.id, place=place, wake_us=wake_us))
    return identity.id


def started(trial: Trial, session: str, *, slot: bool = True, gone: bool = False) -> Committed:
    """Claim a session and set it to work, with a slot of its queue."""
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
    """Its owner gives it back."""
    epoch = trial.head(session).epoch
    return trial.append(session, f"owner of {session}", epoch=epoch, status=change, release=True)


def first(trial: Trial, line: QueueKey = BATCH, limit: int = 10) -> list[str]:
    """The ids of the first."""
    return [row.session for row in trial.store.list_waiting(line, limit)]


def a_session_stands_in_line_exactly_while_it_is_queued(trial: Trial) -> None:
    """A session with a place is in its line while it is queued, and only then; without a place never."""
    session = standing(trial)
    trial.begin()
    equal(trial.store.list_queue_keys(), [BATCH], "the line is there once somebody stands in it")
    equal(trial.store.list_waiting(BATCH, 5), [queue_row_of(trial.head(session))], "the row says what the head says")
    started(trial, session)
    equal(first(trial), [], "who is at work stands in no line")
    equal(trial.store.list_queue_keys(), [], "an empty line is none")
    ended(trial, session, StatusChange(status="queued", reason="back"))
    equal(first(trial), [session], "put back in line")
    started(trial, session)
    ended(trial, session, StatusChange(status="completed"))
    equal(first(trial), [], "who has ended stands in no line")


def the_greater_priority_goes_first_then_the_older(trial: Trial) -> None:
    """By priority, then by how long it stands there; also after it was at work in between."""
    low, first_in, second, high = (standing(trial, priority=one) for one in (-1, 0, 0, 7))
    equal(first(trial), [high, first_in, second, low], "priority, then age")
    started(trial, first_in)
    ended(trial, first_in, StatusChange(status="queued"))
    equal(first(trial), [high, first_in, second, low], "a death costs nobody their place")
    equal(first(trial, limit=2), [high, first_in], "no more than were asked for")
    equal(first(trial, limit=0), [], "none where none were asked for")


def lines_are_apart_by_queue_and_by_what_is_wanted(trial: Trial) -> None:
    """Whoever wants labels of a worker does not stand in the way of those who do not."""
    wanted = standing(trial, wants=("eu", "gpu"))
    plain, other = standing(trial), standing(trial, "other")
    lines = [QueueKey("batch"), QueueKey("batch", ("eu", "gpu")), QueueKey("other")]
    equal(trial.store.list_queue_keys(), lines, "all lines, sorted")
    equal([first(trial, line) for line in lines], [[plain], [wanted], [other]], "each with its own")


def who_has_a_time_waits_for_it(trial: Trial) -> None:
    """A session with a time to wake is not due before it, and then goes by its rank."""
    now = standing(trial)
    wake_us = trial.clock.now_us() + 60_000_000
    later = standing(trial, priority=5, wake_us=wake_us)
    equal(first(trial), [now], "its time has not come")
    equal(trial.store.list_queue_keys(), [BATCH], "it stands there")
    trial.clock.advance(60.0)
    equal(first(trial), [later, now], "its time has come, and its priority is greater")
    started(trial, later)
    again_us = trial.clock.now_us() + 5_000_000
    ended(trial, later, StatusChange(status="queued", wake_us=again_us))
    equal(first(trial), [now], "it waits again")
    trial.clock.advance(6.0)
    rows = {row.session: row.wake_us for row in trial.store.list_waiting(BATCH, 5)}
    equal(rows, {later: again_us, now: None}, "the rows say when")


def a_place_can_be_changed_with_a_step(trial: Trial) -> None:
    """A step may carry another place, and the line follows in the same transaction."""
    session = trial.working()
    place = QueuePosition(queue="batch", priority=3, since_us=1)
    trial.append(session, status=StatusChange(status="queued"), place=place, release=True)
    equal(trial.store.list_waiting(BATCH, 5), [QueueRow(BATCH, 3, 1, session, None)], "it stands there now")
    moved = msgspec.structs.replace(place, queue="other")
    claim = Claim(owner=Owner(id="op"), seconds=1.0, expected_epoch=trial.head(session).epoch)
    trial.store.commit(session, trial.draft(kind="status", claim=claim, place=moved, release=True))
    equal(first(trial), [], "it left its line")
    equal(first(trial, QueueKey("other")), [session], "and stands in the other")


def a_refused_step_moves_nobody(trial: Trial) -> None:
    """What is refused leaves the lines as they were."""
    session = standing(trial)
    refused(lambda: trial.append(session, "nobody", epoch=9, status=StatusChange(status="terminated")), Exception)
    equal(first(trial), [session], "it still stands there")


def a_deleted_session_stands_nowhere(trial: Trial) -> None:
    """Deleting takes a session out of its line, and a name that comes later finds nothing of it."""
    session, later = standing(trial), standing(trial, wake_us=trial.clock.now_us() + 9_000_000)
    trial.store.delete([session, later])
    trial.clock.advance(20.0)
    equal((trial.store.list_queue_keys(), first(trial)), ([], []), "nobody stands there")


def a_rebuilt_head_stands_where_it_says(trial: Trial) -> None:
    """Where a head that cannot be read is replaced, the line follows."""
    session = standing(trial)
    head = trial.head(session)
    if not trial.hooks.break_head(trial.store, session):
        return
    trial.store.rebuild_head(msgspec.structs.replace(head, place=QueuePosition(queue="other", since_us=5)))
    equal((first(trial), first(trial, QueueKey("other"))), ([], [session]), "out of the old line, into the new one")
    equal(trial.store.check(), [], "nothing is wrong with it")


def a_queue_lets_so_many_work_at_once(trial: Trial) -> None:
    """A claim takes a slot with it, or is refused and writes nothing; it is free where its session does not work."""
    trial.store.put_record("queue", "batch", pack_record(Queue(name="batch", concurrency=2)))
    one, two, three = standing(trial), standing(trial), standing(trial)
    started(trial, one)
    started(trial, two)
    trial.unchanged(three, lambda: started(trial, three), QueueFull)
    equal(first(trial), [three], "it stays in line")
    other = standing(trial, "other")
    started(trial, other)
    ended(trial, one, StatusChange(status="completed"))
    started(trial, three)
    trial.clock.advance(LEASE_SECONDS + 1)
    four = standing(trial)
    trial.unchanged(four, lambda: started(trial, four), QueueFull)  # an owner whose lease is over may still go on
    started(trial, four, slot=False)
    started(trial, two, gone=True)  # its own slot
    ended(trial, three, StatusChange(status="queued"))
    ended(trial, two, StatusChange(status="queued"))
    started(trial, three)
    require(trial.head(three).lease is not None, "who was put back in line holds no slot")


def a_queue_lets_so_many_start_in_a_while(trial: Trial) -> None:
    """No more starts in any stretch of time than the rate says, by the store's time."""
    trial.store.put_record("queue", "batch", pack_record(Queue(name="batch", rate=Rate(starts=2, seconds=60.0))))
    one, two, three = standing(trial), standing(trial), standing(trial)
    started(trial, one)
    trial.clock.advance(20.0)
    started(trial, two)
    trial.unchanged(three, lambda: started(trial, three), QueueFull)
    trial.clock.advance(39.0)
    error = refused(lambda: started(trial, three), QueueFull)
    require(isinstance(error, QueueFull) and 0 < error.again_seconds <= 1.0, "it says when there is room")
    trial.clock.advance(1.5)
    started(trial, three)
    trial.store.put_record("queue", "batch", None)
    started(trial, standing(trial))


def small_records_are_kept_by_kind_and_name(trial: Trial) -> None:
    """What is kept comes back, by kind and name; the latest counts; None removes."""
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


def a_small_record_is_exchanged_by_one(trial: Trial) -> None:
    """Of two that saw the same record, or none, one puts another in its place."""
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
    a_session_stands_in_line_exactly_while_it_is_queued,
    the_greater_priority_goes_first_then_the_older,
    lines_are_apart_by_queue_and_by_what_is_wanted,
    who_has_a_time_waits_for_it,
    a_place_can_be_changed_with_a_step,
    a_refused_step_moves_nobody,
    a_deleted_session_stands_nowhere,
    a_rebuilt_head_stands_where_it_says,
    a_queue_lets_so_many_work_at_once,
    a_queue_lets_so_many_start_in_a_while,
    small_records_are_kept_by_kind_and_name,
    a_small_record_is_exchanged_by_one,
)
