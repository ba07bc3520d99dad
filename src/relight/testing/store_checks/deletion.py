"""Deletion: complete, refused while forks depend on it, and without bytes left on disk."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from relight.errors import Conflict, NotFound
from relight.ports.store import Query
from relight.testing.store_checks.trial import Check, Trial, equal, ids, refused, require

_CANARY: Final = "canary-7f3a9c"


def a_deleted_session_is_gone(trial: Trial) -> None:
    """No query finds it, writing to it is NotFound, a second deletion reports it missing, others are unchanged."""
    kept = trial.working(3, name="kept", labels={"team": "a"}, key="k")
    before = trial.record(kept), trial.steps(kept)
    session = trial.working(3, name="going", labels={"team": "a"}, key="k")
    trial.store.label(session, 2, "best", 0)
    seen = {session: trial.head(session).epoch}
    trial.store.delete([session], epochs=seen)
    refused(lambda: trial.store.delete([session], epochs=seen), Conflict)
    equal(trial.store.find(session), None, "by id")
    equal(trial.store.find_named("going"), None, "by name")
    equal(trial.store.find_prefixed(session[:8], 5), [], "by prefix")
    equal(trial.steps(session), [], "no steps")
    equal(trial.store.checkpoints(session), [], "no checkpoints")
    equal(trial.store.find_label(session, "best"), None, "no labels")
    for query in (Query(), Query(labels={"team": "a"}), Query(key="k"), Query(text="going")):
        require(session not in ids(trial.store.list_sessions(query)), f"not listed by {query}")
    refused(lambda: trial.append(session), NotFound)
    equal((trial.record(kept), trial.steps(kept)), before, "the other one")
    equal(trial.store.check(), [], "and the store is whole")


def deleting_nothing_is_no_error(trial: Trial) -> None:
    """Deleting missing sessions, or an empty list, is no error."""
    session = trial.working(1)
    trial.store.delete([])
    trial.store.delete(["missing", "\ud800"])
    trial.store.delete([session, session, "missing"])
    equal(trial.store.find(session), None, "the one that was there is gone")


def a_session_with_forks_stays(trial: Trial) -> None:
    """Deleting a session with forks is a conflict that deletes nothing, unless all its forks are deleted too."""
    parent = trial.working(2)
    fork = trial.fork(parent)
    grandchild = trial.fork(fork)
    other = trial.working(1)
    trial.unchanged(parent, lambda: trial.store.delete([other, parent]), Conflict)
    refused(lambda: trial.store.delete([parent, fork]), Conflict)
    require(trial.store.find(other) is not None, "nothing of a refused deletion is done")
    equal(ids(trial.store.list_sessions(Query(parent=parent))), [fork], "forks are listed by their parent")
    trial.store.delete([grandchild])
    trial.store.delete([parent, fork])
    equal([trial.store.find(one) for one in (parent, fork, grandchild)], [None] * 3, "all three are gone")


def a_session_with_children_stays(trial: Trial) -> None:
    """Deleting a session with children is a conflict that deletes nothing, unless all of them are deleted too."""
    parent = trial.working(2)
    child = trial.begin(spawned_by=parent)
    below = trial.begin(spawned_by=child, labels={"spawned_by": parent})
    trial.unchanged(parent, lambda: trial.store.delete([parent]), Conflict)
    refused(lambda: trial.store.delete([parent, child]), Conflict)
    equal(ids(trial.store.list_sessions(Query(spawned_by=parent))), [child], "children are listed by their parent")
    equal(trial.store.check(), [], "and the index of children is whole")
    trial.store.update(below, partial(msgspec.structs.replace, name="below"))
    equal(ids(trial.store.list_sessions(Query(spawned_by=child))), [below], "also after a change of the identity")
    trial.store.delete([below])
    trial.store.delete([parent, child])
    equal([trial.store.find(one) for one in (parent, child, below)], [None] * 3, "all three are gone")


def a_name_is_free_after_deletion(trial: Trial) -> None:
    """Names can be used again, and nothing of the former session is visible."""
    session = trial.working(3, name="again")
    trial.store.label(session, 2, "best", 0)
    trial.store.delete([session])
    trial.begin(id=session, name="again")
    equal(trial.seqs(session), [], "no step of the former one")
    equal(trial.store.find_label(session, "best"), None, "no label either")
    trial.claim(session)
    equal(trial.seqs(session), [1], "it begins at 1")


def no_byte_of_a_deleted_session_is_left(trial: Trial) -> None:
    """No byte of a deleted session is left on disk, logs included; another session's bytes are."""
    kept = trial.working(2, task="stays-5d21")
    sessions = [
        trial.working(30, name=f"{_CANARY}-{number}", task=_CANARY * 9, key=_CANARY, labels={_CANARY: _CANARY})
        for number in range(3)
    ]
    for session in sessions:
        trial.append(session, text=_CANARY, said=_CANARY, label=_CANARY)
        trial.store.label(session, 2, _CANARY, 0)
    before = trial.hooks.bytes_at_rest(trial.store)
    if before is None:
        return
    require(_CANARY.encode() in before, "the canary was at rest before")
    trial.store.delete(sessions)
    after = trial.hooks.bytes_at_rest(trial.store) or b""
    equal(after.count(_CANARY.encode()), 0, "the canary is nowhere")
    require(b"stays-5d21" in after, "another session's bytes are where they were")
    equal(trial.head(kept).seq, 4, "and it is whole")


CHECKS: Final[tuple[Check, ...]] = (
    a_deleted_session_is_gone,
    deleting_nothing_is_no_error,
    a_session_with_forks_stays,
    a_session_with_children_stays,
    a_name_is_free_after_deletion,
    no_byte_of_a_deleted_session_is_left,
)
