"""Lists of sessions: order, filters, pages without gap or repetition."""

from __future__ import annotations

from typing import Any, Final

from relight.history import listing
from relight.ports.store import Query, Record
from relight.testing.store_checks.trial import Check, Trial, equal, ids, require
from relight.values.session import Head, Identity, Parent
from relight.values.status import Status
from relight.values.usage import Usage

_MANY: Final = 23
_VERY_MANY: Final = 420
"""more than a store reads rather than using the index of an order"""


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
        equal(len(trial.store.list_sessions(Query(text=text))), expected, f"{text!r} is found {expected} times")
    equal(ids(trial.store.list_sessions(Query(text=percent[4:20]))), [percent], "a part of the id")
    equal(trial.store.list_sessions(Query(text="'; DROP TABLE sessions; --")), [], "text is data")
    equal(trial.store.list_sessions(Query(text="\ud800")), [], "odd text is text")


def every_order_pages_without_gap_or_repetition(trial: Trial) -> None:
    """In every order the pages join to all sessions, live ones and equal values too, and every filter filters."""
    words: tuple[Status, ...] = ("completed", "failed", "working", "completed", "waiting", "archived", "completed")
    records = [_valued(number, words[number % len(words)]) for number in range(_VERY_MANY)]
    trial.store.import_sessions(records, [], [])
    session = trial.working(2, name="Grown")
    trial.change(session, "completed")
    trial.append(session)
    queries = (
        Query(),
        Query(statuses=frozenset(words) - {"archived"}),
        Query(agent="codex", labels={"team": "a"}),
        Query(labels={"team": "b"}, statuses=frozenset[Status]({"working"})),
        Query(created_since_us=100_040, text="n"),
        Query(provider="none-has-it"),
    )
    for query in queries:
        every = list(listing.every_session(trial.store, query))
        for order in (f"{way}{name}" for name in listing.SORTS for way in ("", "-")):
            expected = ids(listing.in_order(every, order, before=None, limit=len(every)))
            seen: list[str] = []
            place = None
            while len(seen) < len(expected):
                some = listing.candidates(trial.store, query, order, before=place, limit=37)
                page = listing.in_order(some, order, before=place, limit=37)
                require(bool(page), f"{order}: a page after {len(seen)} of {len(expected)} sessions")
                seen += ids(page)
                place = listing.SORTS[order.removeprefix("-")].record(page[-1]), page[-1].identity.id
            equal(seen, expected, f"every session by {order}, {query}")


def _valued(number: int, status: Status) -> Record:
    """A session whose values others have too."""
    session = f"{number * 7919 % 10_007:032x}"
    identity = Identity(
        id=session,
        created_us=100_000 + number // 3,
        name=None if number % 5 == 0 else f"{'N' if number % 2 else 'n'}ame {number % 50} É {number}",
        agent=("claude", "codex")[number % 2],
        labels={"team": "ab"[number % 3 % 2]},
    )
    usage = Usage(cost=None if number % 4 == 0 else number % 9 / 8)
    head = Head(
        session=session, seq=number % 11, head=number % 11, status=status, usage=usage, updated_us=500 + number % 13
    )
    return Record(identity=identity, head=head)


CHECKS: Final[tuple[Check, ...]] = (
    sessions_are_listed_newest_first,
    pages_join_without_gap_or_repetition,
    every_filter_filters,
    several_statuses_keep_the_order,
    labels_page_too,
    every_order_pages_without_gap_or_repetition,
    a_search_is_for_text_not_for_patterns,
)
