"""Lists of sessions: order, filters, pages without gap or repetition."""

from __future__ import annotations

from typing import Any, Final

from relight.ports.store import Query
from relight.testing.store_checks.trial import Check, Trial, equal, ids
from relight.values.session import Parent
from relight.values.status import Status

_MANY: Final = 23


def sessions_are_listed_newest_first(trial: Trial) -> None:
    """Sessions are listed by creation time, newest first; ties by id."""
    sessions = [trial.begin() for _ in range(5)]
    twins = [trial.begin(id=name, created_us=7) for name in ("b", "c", "a")]
    expected = [*reversed(sessions), "c", "b", "a"]
    equal(ids(trial.store.list_sessions(Query())), expected, "newest first")
    equal(len(twins), 3, "three of the same time")
    equal(ids(trial.store.list_sessions(Query(limit=3))), expected[:3], "no more than the limit")
    equal(trial.store.list_sessions(Query(limit=0)), [], "none where none is asked for")


def pages_join_without_gap_or_repetition(trial: Trial) -> None:
    """Following the cursor visits every session once, also while others are created and deleted."""
    sessions = [trial.begin(created_us=1_000 + number // 4) for number in range(_MANY)]
    expected = ids(trial.store.list_sessions(Query(limit=_MANY)))
    equal(sorted(expected), sorted(sessions), "all of them")
    seen: list[str] = []
    before = None
    while page := trial.store.list_sessions(Query(limit=4, before=before)):
        seen += ids(page)
        last = page[-1].identity
        before = (last.created_us, last.id)
        trial.begin()  # newer than the cursor: not on a later page
        trial.store.delete([page[0].identity.id])  # seen already: nothing shifts
    equal(seen, expected, "every session once, in order")


def every_filter_filters(trial: Trial) -> None:
    """Every filter works alone, combined with all others, and with values that match nothing."""
    wanted = trial.begin(
        agent="codex",
        provider="openai",
        key="job/7",
        labels={"team": "core", "tier": "1"},
        status="failed",
        task="Fix the Büild",
        name="target",
        parent=Parent(session="origin", seq=1),
        spawned_by="opener",
    )
    for number in range(3):
        trial.begin(
            agent="claude",
            provider="anthropic",
            key=f"job/{number}",
            labels={"team": "web"},
            status="queued",
            task="write docs",
            name=f"other-{number}",
            parent=Parent(session=f"p{number}", seq=1),
            spawned_by=f"s{number}",
        )
    since = trial.record(wanted).identity.created_us
    alone: dict[str, Any] = {
        "agent": "codex",
        "provider": "openai",
        "key": "job/7",
        "labels": {"team": "core"},
        "statuses": frozenset[Status]({"failed", "waiting"}),
        "text": "büild",
        "parent": "origin",
        "spawned_by": "opener",
    }
    for field, value in alone.items():
        equal(ids(trial.store.list_sessions(Query(**{field: value}))), [wanted], f"{field} alone")
    together = Query(**alone, created_since_us=since, before=(since + 1, ""), limit=5)
    equal(ids(trial.store.list_sessions(together)), [wanted], "all together")
    both = Query(labels={"team": "core", "tier": "1"})
    equal(ids(trial.store.list_sessions(both)), [wanted], "two labels")
    nothing: dict[str, Any] = {
        **dict.fromkeys(("agent", "provider", "key", "text", "parent", "spawned_by"), "no such thing"),
        "labels": {"team": "core", "tier": "2"},
        "statuses": frozenset[Status]({"halted"}),
        "created_since_us": since + 10**12,
        "before": (0, ""),
    }
    for field, value in nothing.items():
        equal(trial.store.list_sessions(Query(**{field: value})), [], f"{field} that fits nothing")
    equal(trial.store.list_sessions(Query(statuses=frozenset())), [], "no status at all")


def several_statuses_keep_the_order(trial: Trial) -> None:
    """A filter by several statuses keeps one order over all pages."""
    words: tuple[Status, ...] = ("queued", "failed", "working", "completed")
    sessions = [trial.begin(status=words[number % 4]) for number in range(_MANY)]
    asked = frozenset[Status]({"failed", "working", "queued"})
    expected = [session for number, session in enumerate(sessions) if number % 4 != 3][::-1]
    first = trial.store.list_sessions(Query(statuses=asked, limit=5))
    last = first[-1].identity
    rest = trial.store.list_sessions(Query(statuses=asked, before=(last.created_us, last.id), limit=50))
    equal(ids(first) + ids(rest), expected, "one order over all statuses")


def labels_page_too(trial: Trial) -> None:
    """A label filter works with a cursor, also where creation times are equal."""
    sessions = [
        trial.begin(id=f"s{number:02}", created_us=100 + number // 3, labels={"team": "ab"[number % 2]})
        for number in range(_MANY)
    ]
    expected = [session for number, session in enumerate(sessions) if number % 2 == 0][::-1]
    seen: list[str] = []
    before = None
    while page := trial.store.list_sessions(Query(labels={"team": "a"}, limit=3, before=before)):
        seen += ids(page)
        before = (page[-1].identity.created_us, page[-1].identity.id)
    equal(seen, expected, "every session with the label once, in order")


def a_search_is_for_text_not_for_patterns(trial: Trial) -> None:
    """A search is for a literal substring of name, key, task, id or labels; case is ignored."""
    percent = trial.begin(task="raise coverage to 100% (a_b)", name="cover")
    trial.begin(task="raise coverage to 100 percent (axb)", labels={"owner": "Ana"})
    for text, expected in (("100%", 1), ("a_b", 1), ("A_B", 1), ("coverage", 2), ("COVER", 2), ("owner=ana", 1)):
        equal(len(trial.store.list_sessions(Query(text=text))), expected, f"{text!a} is found {expected} times")
    equal(ids(trial.store.list_sessions(Query(text=percent[4:20]))), [percent], "a part of the id")
    equal(trial.store.list_sessions(Query(text="'; DROP TABLE sessions; --")), [], "text is data")
    equal(trial.store.list_sessions(Query(text="\ud800")), [], "odd text is text")


CHECKS: Final[tuple[Check, ...]] = (
    sessions_are_listed_newest_first,
    pages_join_without_gap_or_repetition,
    every_filter_filters,
    several_statuses_keep_the_order,
    labels_page_too,
    a_search_is_for_text_not_for_patterns,
)
