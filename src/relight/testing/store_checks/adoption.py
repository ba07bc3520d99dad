"""Import: sessions of another store are inserted unchanged, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from relight.errors import Conflict
from relight.ports.store import Record
from relight.testing.store_checks.trial import Check, Trial, equal
from relight.values.snapshot import Snapshot
from relight.values.step import Step

_ELSEWHERE: Final = "e1sewhere00000000000000000000000"


def _foreign(trial: Trial, name: str | None = None) -> tuple[Record, list[Step]]:
    """A session as another store would export it."""
    session = trial.working(3)
    record = trial.store.find(session)
    assert record is not None
    assert record.head is not None
    identity = msgspec.structs.replace(record.identity, id=_ELSEWHERE, name=name)
    head = msgspec.structs.replace(record.head, session=_ELSEWHERE, lease=None)
    steps = [msgspec.structs.replace(step, session=_ELSEWHERE) for step in trial.steps(session)]
    return Record(identity=identity, head=head), steps


def imported_as_it_is(trial: Trial) -> None:
    """Identity, head, steps, labels and digests are what was given; the next step continues them."""
    record, steps = _foreign(trial, "moved")
    trial.store.import_sessions([record], [(step, ()) for step in steps], [(_ELSEWHERE, 1, "a"), (_ELSEWHERE, 2, "a")])
    equal(trial.store.find(_ELSEWHERE), record, "the session")
    equal(trial.store.find_named("moved"), record, "by its name")
    equal(trial.steps(_ELSEWHERE), steps, "its steps")
    equal(trial.store.find_label(_ELSEWHERE, "a"), 2, "the label given last")
    equal([damage.what for damage in trial.store.check()], [], "the store finds no damage")


def imported_whole_or_not_at_all(trial: Trial) -> None:
    """An error in the middle of the steps, or a snapshot of an unknown segment, leaves nothing."""
    record, steps = _foreign(trial)

    def breaking() -> Iterator[tuple[Step, tuple[Snapshot, ...]]]:
        yield steps[0], ()
        raise RuntimeError("the file ended")

    try:
        trial.store.import_sessions([record], breaking(), [])
    except RuntimeError:
        equal(trial.store.find(_ELSEWHERE), None, "nothing of it is there")
        equal(trial.steps(_ELSEWHERE), [], "no step either")
    else:
        raise AssertionError("the error of the steps was swallowed")
    swept = Snapshot(id="sha256:" + "0" * 64, root="main", pool="p", segments=("gone",))
    try:
        trial.store.import_sessions([record], [(step, (swept,)) for step in steps], [])
    except Conflict:
        equal(trial.store.find(_ELSEWHERE), None, "nothing of it is there")
    else:
        raise AssertionError("a snapshot was named whose content was swept")
    trial.store.import_sessions([record], [(step, ()) for step in steps], [])
    equal(trial.steps(_ELSEWHERE), steps, "afterwards it can be taken in")


def nothing_is_written_over(trial: Trial) -> None:
    """An id or name that exists already is a conflict, and the existing session is unchanged."""
    record, steps = _foreign(trial, "moved")
    trial.store.import_sessions([record], [(step, ()) for step in steps], [])
    other = msgspec.structs.replace(record.identity, id="an0ther0000000000000000000000000")
    assert record.head is not None
    head = msgspec.structs.replace(record.head, session=other.id)
    for again in (record, Record(identity=other, head=head)):
        try:
            trial.store.import_sessions([again], [], [])
        except Conflict:
            continue
        raise AssertionError("it was written over")
    equal(trial.steps(_ELSEWHERE), steps, "its steps are untouched")
    equal(trial.store.find(other.id), None, "the other one is not there")


CHECKS: Final[tuple[Check, ...]] = (imported_as_it_is, imported_whole_or_not_at_all, nothing_is_written_over)
