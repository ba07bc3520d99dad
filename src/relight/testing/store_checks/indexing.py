"""The index of words, of a store that says that it has one: a step is in it or not yet in it, and what is removed is in
neither."""

from __future__ import annotations

from typing import Final, cast

from relight.ports.search import IndexedStore, StoredText, Words
from relight.testing.store_checks.trial import Check, Trial, equal, require

_BLOCKS: Final = range(4)


def a_step_is_unindexed_from_its_commit_on_and_indexed_once(trial: Trial) -> None:
    """A committed step is unindexed until it is added, in one transaction and not twice; a word leads to the steps that
    have it."""
    if not trial.store.info.indexed:
        return
    index = cast(IndexedStore, trial.store)
    session = trial.working(3)
    texts = index.list_unindexed(100)
    equal([(one.session, one.seq) for one in texts], [(session, seq) for seq in trial.seqs(session)], "oldest first")
    equal(index.list_unindexed(100, newest=True), texts[::-1], "newest first")
    equal(index.count_unindexed(), len(texts), "all are counted")
    equal([step.body for step in trial.steps(session)], [one.body for one in texts], "with the bodies of the steps")
    require(index.index_steps(_words(texts[:2])), "the oldest are added")
    require(not index.index_steps(_words(texts[:2])), "and not twice")
    equal(index.list_unindexed(100), texts[2:], "what is added is unindexed no more")
    trial.append(session)
    require(index.index_steps(_words(index.list_unindexed(100))), "the rest is added, with what came meanwhile")
    require(index.newest_block() >= 0 and index.count_unindexed() == 0, "all are in the index")
    require(
        index.find_words("w1", "w1", _BLOCKS) and index.find_words("w", "x", _BLOCKS), "a word, or a range, is found"
    )
    equal(index.find_words("absent", "absent", _BLOCKS), [], "and what no step has is not")
    found = sorted(index.read_places([one.place for one in texts]), key=lambda one: one.place)
    equal(found, texts, "a place leads to its step")


def nothing_of_a_removed_session_is_in_the_index(trial: Trial) -> None:
    """A deletion takes the session's words and places with it, indexed or not; one that was deleted after its steps
    were read is not added."""
    if not trial.store.info.indexed:
        return
    index = cast(IndexedStore, trial.store)
    kept, gone = trial.working(1), trial.working(1)
    texts = index.list_unindexed(100)
    trial.store.delete([gone])
    require(not index.index_steps(_words(texts)), "steps that are gone are not added")
    require(index.index_steps(_words(index.list_unindexed(100))), "the others are")
    late = trial.working(1)
    require(index.index_steps(_words(index.list_unindexed(100))), "and those of another session")
    places = [one.place for one in texts]
    trial.store.delete([late])
    equal(index.find_words(f"s{late[:8]}", f"s{late[:8]}", _BLOCKS), [], "no word of it is left")
    require(index.find_words(f"s{kept[:8]}", f"s{kept[:8]}", _BLOCKS), "and all of the others")
    equal({one.session for one in index.read_places(places)}, {kept}, "its places are empty")


def _words(texts: list[StoredText]) -> list[Words]:
    return [
        Words(place=one.place, session=one.session, seq=one.seq, words={f"w{one.seq}", f"s{one.session[:8]}"})
        for one in texts
    ]


CHECKS: Final[tuple[Check, ...]] = (
    a_step_is_unindexed_from_its_commit_on_and_indexed_once,
    nothing_of_a_removed_session_is_in_the_index,
)
