"""Creating, updating and finding sessions; values are read back unchanged."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from relight.errors import Conflict, NotFound
from relight.testing.store_checks.trial import Check, Trial, equal, ids, refused, require
from relight.values.session import Head, Identity, Parent
from relight.values.status import STATUSES

_ODD_TEXTS: Final = (
    "",
    "plain",
    "ümläut ✓",
    "\x00\x1b[31m",
    "a\nb",
    "%_'\"\\;--",
    "../../etc",
    "\ud800lone",
    "\ufdd0odd",
)


def a_session_comes_back_as_it_was_given(trial: Trial) -> None:
    """Every field of identity and head is read back unchanged, with any text."""
    for number, text in enumerate(_ODD_TEXTS):
        identity = Identity(
            id=trial.entropy.session_id(),
            name=f"name-{number}",
            key=text,
            agent=text,
            provider=text,
            model=text,
            task=text,
            labels={"k" + text: text},
            metadata={"nested": [1, {"text": text}, None, 1.5, True, 2**70]},
            parent=Parent(session="elsewhere", seq=3),
            command=["run", text],
            directory="/somewhere",
            created_us=1_000 + number,
        )
        head = Head(session=identity.id, seq=3, head=3, said=text, reason=text, status="waiting")
        trial.store.create(identity, head)
        record = trial.record(identity.id)
        equal((record.identity, record.head), (identity, head), f"a session with {text!r} comes back")


def an_unknown_session_is_not_found(trial: Trial) -> None:
    """A missing session is None, an empty list or NotFound, never another error."""
    trial.begin(name="present")
    for odd in ("0" * 32, "", "nothing", *_ODD_TEXTS[2:]):
        equal(trial.store.find(odd), None, f"find {odd!r}")
        equal(trial.store.find_named(odd), None, f"find_named {odd!r}")
        equal(trial.steps(odd), [], f"steps of {odd!r}")
        equal(trial.store.checkpoints(odd), [], f"checkpoints of {odd!r}")
        equal(trial.store.find_label(odd, "x"), None, f"labels of {odd!r}")
        for act in _acts_on(trial, odd):
            refused(act, NotFound)


def _acts_on(trial: Trial, session: str) -> list[Callable[[], object]]:
    store = trial.store
    return [
        lambda: trial.append(session),
        lambda: store.renew(session, owner="x", epoch=1),
        lambda: store.release(session, owner="x", epoch=1),
        lambda: store.label(session, 1, "x", 0),
        lambda: store.unlabel(session, 1),
        lambda: store.find_commit(session, b"12345678", after=0),
        lambda: store.update(session, lambda identity: identity),
        lambda: store.rebuild_head(Head(session=session)),
    ]


def an_id_is_given_once(trial: Trial) -> None:
    """A second session with the same id is a conflict, and the first one is unchanged."""
    session = trial.working(2)
    trial.unchanged(
        session,
        lambda: trial.store.create(Identity(id=session, created_us=5, task="other"), Head(session=session)),
        Conflict,
    )


def a_name_is_held_by_one_session(trial: Trial) -> None:
    """A name in use is a conflict, for a new session and for an update; a released name is free."""
    first = trial.begin(name="nightly")
    other = trial.begin(name="other")
    refused(lambda: trial.begin(name="nightly"), Conflict)
    renamed = partial(msgspec.structs.replace, name="nightly")
    trial.unchanged(other, lambda: trial.store.update(other, renamed), Conflict)
    trial.store.update(first, partial(msgspec.structs.replace, name=None))
    equal(trial.store.find_named("nightly"), None, "a name that was given up leads nowhere")
    trial.store.update(other, renamed)
    found = trial.store.find_named("nightly")
    require(found is not None and found.identity.id == other, "the name leads to its new holder")
    equal(trial.record(first).identity.name, None, "the former holder has none")


def a_name_is_exact(trial: Trial) -> None:
    """A name is found only by its exact text: no part, other case or pattern."""
    trial.begin(name="Build.7")
    for near in ("build.7", "Build", "Build.77", "Build_7", "B%", "Build.7 ", ""):
        equal(trial.store.find_named(near), None, f"{near!r} is another name")
    require(trial.store.find_named("Build.7") is not None, "the name itself is found")


def a_change_replaces_what_a_session_is(trial: Trial) -> None:
    """After an update every query uses the new values, and the journal is unchanged."""
    session = trial.working(3, name="before", key="k1", labels={"team": "a", "kept": "x"}, agent="one")
    steps, head = trial.steps(session), trial.head(session)
    changed = msgspec.structs.replace(
        trial.record(session).identity, name="after", key="k2", labels={"team": "b"}, agent="two", task="new"
    )
    equal(trial.store.update(session, lambda _: changed), changed, "what an update returns")
    equal(trial.record(session).identity, changed, "the new identity")
    equal((trial.steps(session), trial.head(session)), (steps, head), "journal and head stay")
    equal(trial.store.find_named("before"), None, "the old name is gone")


def a_prefix_finds_ids_that_begin_with_it(trial: Trial) -> None:
    """A prefix finds ids that begin with it, in order, up to the limit, never as a pattern."""
    for tail in ("a1", "a2", "a3", "b1"):
        trial.begin(id=f"cafe{tail}")
    trial.begin(id="cafd")
    equal(ids(trial.store.find_prefixed("cafea", 9)), ["cafea1", "cafea2", "cafea3"], "all that begin with it")
    equal(ids(trial.store.find_prefixed("cafe", 2)), ["cafea1", "cafea2"], "no more than the limit")
    equal(ids(trial.store.find_prefixed("cafd", 2)), ["cafd"], "a full id is a prefix of itself")
    for pattern in ("caf_", "caf%", "CAFE", "cafe ", "cafez"):
        equal(trial.store.find_prefixed(pattern, 9), [], f"{pattern!r} is no prefix")


def what_was_given_cannot_be_changed_afterwards(trial: Trial) -> None:
    """Modifying a mapping that was passed in or returned changes nothing in the store."""
    labels, metadata = {"team": "a"}, {"list": [1]}
    session = trial.begin(labels=labels, metadata=metadata)
    labels["team"] = "b"
    metadata["list"].append(2)
    trial.record(session).identity.labels["team"] = "c"
    trial.record(session).identity.metadata["list"].append(3)
    identity = trial.record(session).identity
    equal((identity.labels, identity.metadata), ({"team": "a"}, {"list": [1]}), "what was stored stays")


def sessions_are_counted_by_status(trial: Trial) -> None:
    """The counts by status follow creation, status changes and deletion."""
    equal(trial.store.count_sessions(), {}, "an empty store counts nothing")
    created = {status: [trial.begin(status=status) for _ in range(2)] for status in STATUSES}
    equal(trial.store.count_sessions(), dict.fromkeys(STATUSES, 2), "two of each")
    session = created["queued"][0]
    trial.claim(session)
    trial.change(session, "working")
    trial.store.delete([created["failed"][0], created["halted"][0], created["halted"][1]])
    expected = {**dict.fromkeys(STATUSES, 2), "queued": 1, "working": 3, "failed": 1}
    del expected["halted"]
    equal(trial.store.count_sessions(), expected, "the counts after a change and three deletions")


CHECKS: Final[tuple[Check, ...]] = (
    a_session_comes_back_as_it_was_given,
    an_unknown_session_is_not_found,
    an_id_is_given_once,
    a_name_is_held_by_one_session,
    a_name_is_exact,
    a_change_replaces_what_a_session_is,
    a_prefix_finds_ids_that_begin_with_it,
    what_was_given_cannot_be_changed_afterwards,
    sessions_are_counted_by_status,
)
