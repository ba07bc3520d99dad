"""Labels of checkpoints: set with a step or later, removed, moved."""

from __future__ import annotations

from typing import Final

from relight.testing.store_checks.trial import Check, Trial, equal


def _shown(trial: Trial, session: str) -> dict[int, str]:
    return {row.seq: row.label for row in trial.store.checkpoints(session) if row.label is not None}


def a_label_leads_to_its_checkpoint(trial: Trial) -> None:
    """A label that was set with a step or later finds its checkpoint, in its own session only."""
    session, other = trial.working(2), trial.working(2)
    committed = trial.append(session, label="green")
    trial.store.label(session, 2, "before", 0)
    equal(trial.store.find_label(session, "green"), committed.step.seq, "given with the step")
    equal(trial.store.find_label(session, "before"), 2, "given later")
    equal(_shown(trial, session), {2: "before", committed.step.seq: "green"}, "the list shows them")
    equal(trial.store.find_label(session, "Green"), None, "labels are exact")
    equal(trial.store.find_label(other, "green"), None, "labels of another session")
    equal(_shown(trial, other), {}, "none there")


def the_newest_giving_wins(trial: Trial) -> None:
    """The newest use of a label wins, and the newest label of a checkpoint."""
    session = trial.working(5)
    for seq, label in ((4, "best"), (2, "best"), (2, "also"), (5, "best"), (3, "best")):
        trial.store.label(session, seq, label, 0)
    equal(trial.store.find_label(session, "best"), 3, "the last one")
    equal(trial.store.find_label(session, "best", upto=2), 2, "the last one up to a seq")
    equal(trial.store.find_label(session, "best", upto=1), None, "none below")
    equal(_shown(trial, session), {2: "also", 3: "best", 4: "best", 5: "best"}, "each with its newest")


def a_label_can_be_removed(trial: Trial) -> None:
    """Removing the labels of a checkpoint leaves other labels and the step itself."""
    session = trial.working(3)
    committed = trial.append(session, label="a")
    seq = committed.step.seq
    trial.store.label(session, seq, "b", 0)
    trial.store.label(session, 2, "a", 0)
    steps = trial.steps(session)
    equal(trial.store.unlabel(session, seq), 2, "two were there")
    equal(trial.store.unlabel(session, seq), 0, "none is left")
    equal(trial.store.find_label(session, "b"), None, "b is gone")
    equal(trial.store.find_label(session, "a"), 2, "a leads to the other checkpoint")
    equal(trial.steps(session), steps, "the journal is untouched")


def any_label_is_text(trial: Trial) -> None:
    """Any text can be a label, is read back unchanged, and finds its checkpoint."""
    session = trial.working(1)
    for seq, label in enumerate(("ümläut", "a b", "%", "\ud800", "\ufdd0", "'\"", "\x00", ""), 1):
        trial.store.label(session, seq, label, 0)
        equal(trial.store.find_label(session, label), seq, f"label {label!r}")
        committed = trial.append(session, label=label)
        equal(trial.steps(session)[-1].label, label, f"label {label!r} in the step")
        equal(trial.store.find_label(session, label), committed.step.seq, f"label {label!r} given again")


CHECKS: Final[tuple[Check, ...]] = (
    a_label_leads_to_its_checkpoint,
    the_newest_giving_wins,
    a_label_can_be_removed,
    any_label_is_text,
)
