"""The journal: numbering, digest chain, ranges, status changes, unknown outcomes of a commit."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from relight.errors import Conflict, Corrupt
from relight.journal.chain import broken_links
from relight.testing.store_checks.trial import Check, Trial, equal, refused, require
from relight.values.call import Intent
from relight.values.session import GENESIS
from relight.values.status import STATUSES, StatusChange, allowed
from relight.values.step import View
from relight.values.usage import Usage


def steps_are_numbered_without_gap(trial: Trial) -> None:
    """Steps are numbered from 1 without gap; refused commits use no number."""
    session = trial.working(5)
    refused(lambda: trial.change(session, "archived"), Conflict)
    trial.append(session)
    equal(trial.seqs(session), list(range(1, 9)), "1 to 8")
    equal(trial.head(session).seq, 8, "the head knows the newest")


def a_step_comes_back_as_it_was_committed(trial: Trial) -> None:
    """Every field that commit returns is what steps and find return."""
    session = trial.begin()
    intent = Intent(id="call-1", name="send", effect="once", asked_seq=2)
    committed = [
        trial.claim(session),
        trial.change(session, "working", label="begun"),
        trial.append(session, text="x" * 70_000, messages_added=2, turns_added=1, said="first line"),
        trial.append(session, kind="intent", opened=(intent,), usage=Usage(input_tokens=5, cost=0.5)),
        trial.append(session, kind="result", closed=((2, "call-1"),), text="\ud800 \x00 ✓"),
        trial.append(session, kind="rewind", view=View(head=2, since=0, message_count=0, turns=0)),
        trial.append(session, body=b"\x01\x00"),
    ]
    equal(trial.steps(session), [one.step for one in committed], "the steps")
    equal(trial.head(session), committed[-1].head, "the head")
    equal(committed[3].head.open[0].id, "call-1", "an open call is known")
    breaks = list(broken_links(trial.store.steps(session), after=0, digest=GENESIS))
    equal(breaks, [], "every step follows from the one before it")


def a_fork_goes_on_with_its_parents_numbers(trial: Trial) -> None:
    """A fork's first step follows its parent's seq and chains to its digest; it has no other steps."""
    parent = trial.working(4)
    before = trial.head(parent)
    fork = trial.fork(parent)
    trial.claim(fork)
    trial.append(fork)
    trial.append(parent)
    equal(trial.seqs(fork), [before.seq + 1, before.seq + 2], "the fork's own steps")
    breaks = list(broken_links(trial.store.steps(fork), after=before.seq, digest=before.digest))
    equal(breaks, [], "chained to its parent")
    equal(trial.seqs(parent), list(range(1, before.seq + 2)), "the parent's steps are its own")


def ranges_of_steps_are_exact(trial: Trial) -> None:
    """Ranges are after < seq <= upto, for steps and checkpoints, at every boundary."""
    session = trial.working(8)
    trial.working(3)
    last = trial.head(session).seq
    edges = (0, 1, 4, last - 1, last, last + 1, 2**31)
    for after in edges:
        for upto in (None, *edges):
            wanted = [seq for seq in range(1, last + 1) if seq > after and (upto is None or seq <= upto)]
            got = [step.seq for step in trial.store.steps(session, after=after, upto=upto)]
            rows = [row.seq for row in trial.store.checkpoints(session, after=after, upto=upto)]
            equal((got, rows), (wanted, wanted), f"after {after} up to {upto}")


def checkpoints_are_the_steps_without_bodies(trial: Trial) -> None:
    """Checkpoint rows have the values of their steps."""
    session = trial.working(6)
    trial.append(session, label="here", turns_added=2, messages_added=3)
    rows = trial.store.checkpoints(session)
    for row, step in zip(rows, trial.steps(session), strict=True):
        shown = (row.seq, row.kind, row.at_us, row.base, row.turns, row.message_count, row.size_bytes, row.label)
        own = (step.seq, step.kind, step.at_us, step.base, step.turns, step.message_count, len(step.body), step.label)
        equal(shown, own, f"checkpoint {row.seq}")


def a_reader_may_stop_anywhere(trial: Trial) -> None:
    """An iteration over steps may stop early, or continue while others write."""
    session = trial.working(300)
    reader = trial.store.steps(session)
    equal([next(reader).seq for _ in range(3)], [1, 2, 3], "the first three")
    trial.append(session)
    rest = [step.seq for step in reader]
    require(rest[:298] == list(range(4, 302)), "the rest, in order")
    abandoned = trial.store.steps(session)
    next(abandoned)
    trial.append(session)
    equal(trial.head(session).seq, 304, "later writes succeed")


def time_never_goes_back_in_a_journal(trial: Trial) -> None:
    """Times of steps never decrease, even if the wall clock jumps back."""
    session = trial.working(1)
    trial.clock.set_wall(1_000)
    trial.append(session)
    times = [step.at_us for step in trial.steps(session)]
    equal(times, sorted(times), "times in order")


def every_change_of_status_follows_the_table(trial: Trial) -> None:
    """Of all pairs of statuses the allowed changes succeed, and the others are conflicts that change nothing."""
    for before in STATUSES:
        for after in STATUSES:
            session = trial.begin(status=before)
            trial.claim(session)
            if before == after or allowed(before, after):
                head = trial.append(session, status=StatusChange(status=after, reason="because")).head
                equal((trial.head(session).status, head.reason), (after, "because"), f"{before} to {after}")
            else:
                trial.unchanged(session, partial(trial.change, session, after), Conflict)


def an_unknown_outcome_is_found_by_its_key(trial: Trial) -> None:
    """find_commit returns the step with the writer's key after a seq, else None."""
    session = trial.working(2)
    other = trial.working(2)
    mine = trial.append(session)
    trial.append(session)
    found = trial.store.find_commit(session, mine.step.key, after=mine.step.seq - 1)
    require(found is not None, "it is found")
    assert found is not None
    equal((found.step, found.head), (mine.step, trial.head(session)), "the step, and the head as it is now")
    equal(trial.store.find_commit(session, mine.step.key, after=mine.step.seq), None, "not before it was tried")
    equal(trial.store.find_commit(session, b"another!", after=0), None, "an unused key")
    equal(trial.store.find_commit(other, mine.step.key, after=0), None, "a key of another session")
    fork = trial.fork(session)
    equal(trial.store.find_commit(fork, mine.step.key, after=0), None, "a fork has its own keys")


def committing_changes_the_token(trial: Trial) -> None:
    """The token of `changed` differs after a commit, and only then."""
    session = trial.working(1)
    token = trial.store.changed()
    equal(trial.store.changed(), token, "nothing written, the same token")
    trial.append(session)
    require(trial.store.changed() != token, "another token after a commit")


def reading_changes_nothing(trial: Trial) -> None:
    """No way of reading changes the token or the size of the store."""
    session = trial.working(3, name="read-me")
    before = trial.store.changed(), trial.record(session), trial.steps(session)
    size = trial.store.size_bytes()
    trial.store.find_named("read-me")
    trial.store.find_prefixed(session[:6], 5)
    trial.store.checkpoints(session)
    trial.store.count_sessions()
    trial.store.find_label(session, "none")
    trial.store.find_commit(session, b"unknown!", after=0)
    equal(trial.store.check(), [], "a whole store has no damage")
    after = trial.store.changed(), trial.record(session), trial.steps(session)
    equal(after, before, "as before")
    equal(trial.store.size_bytes(), size, "no more room")


def a_whole_head_is_not_replaced(trial: Trial) -> None:
    """rebuild_head refuses a readable head, and repairs a damaged one."""
    session = trial.working(3)
    head = trial.head(session)
    other = msgspec.structs.replace(head, said="something else")
    trial.unchanged(session, lambda: trial.store.rebuild_head(other), Conflict)
    if not trial.hooks.break_head(trial.store, session):
        return
    equal(trial.record(session).head, None, "a head that fails its seal is None")
    refused(lambda: trial.append(session), Corrupt)
    trial.store.rebuild_head(head)
    equal(trial.head(session), head, "rebuilt")
    trial.append(session)
    equal(trial.store.check(), [], "and whole")


def closing_is_idempotent(trial: Trial) -> None:
    """Closing a store twice is no error."""
    trial.working(1)
    trial.store.close()
    trial.store.close()


CHECKS: Final[tuple[Check, ...]] = (
    steps_are_numbered_without_gap,
    a_step_comes_back_as_it_was_committed,
    a_fork_goes_on_with_its_parents_numbers,
    ranges_of_steps_are_exact,
    checkpoints_are_the_steps_without_bodies,
    a_reader_may_stop_anywhere,
    time_never_goes_back_in_a_journal,
    every_change_of_status_follows_the_table,
    an_unknown_outcome_is_found_by_its_key,
    committing_changes_the_token,
    reading_changes_nothing,
    a_whole_head_is_not_replaced,
    closing_is_idempotent,
)
