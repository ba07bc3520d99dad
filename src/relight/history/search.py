"""Search over the content of all sessions: words, "phrases" and beginnings* in what any step says.

A store with an index (`ports/search.py`) is searched in two parts: the steps that are in the index, by its words, and
those that are not yet, by reading them. A search first adds what is missing, for a bounded time and in bounded pieces,
each a transaction of its own: killed in between, the next one continues. What neither part covers is counted and said.
A store without an index is read, newest sessions first, up to a bound.

Steps that were rewound are found too, and marked: they happened. What a fork inherits is found in its own session.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import Any, Final, cast

import msgspec

from relight.errors import StoreFull, StoreReadOnly
from relight.history import listing
from relight.history.loading import Found, chain_of, resolve
from relight.journal.lineage import stretches
from relight.journal.search import blocks
from relight.journal.search.names import named_text
from relight.journal.search.query import Query, Term, excerpt, parse
from relight.journal.search.words import text_of, words_of
from relight.ports import store as stores
from relight.ports.search import IndexedStore, StoredText, Words
from relight.sessions.context import Context
from relight.values.checkpoint import at
from relight.values.session import Head
from relight.values.step import Step

CATCH_UP_SECONDS: Final = 2.0
"""how long a search adds missing steps to the index before it answers"""
PIECE_STEPS: Final = 512
"""steps that are added in one transaction: a commit waits for no more than these"""
TAIL_STEPS: Final = 1024
"""unindexed steps that a search reads, the newest ones"""
_WORTH_ADDING: Final = 64
_WINDOW: Final = 64
"""blocks that are looked up at once, at most: the first time one, because for a common word that is enough"""
_CHUNK: Final = 32
MAX_READ: Final = 4096
"""steps that one search reads because their words fit; it can be continued from there"""
MAX_LOOKED: Final = 1_500_000
"""entries of the index that one search compares: common words that never meet have very many; it continues too"""
MAX_SCANNED: Final = 20_000
"""steps that are read in a store without an index"""
_MAX_NAMED: Final = 200
_MAX_WORDS: Final = 4
_LAST_CHARACTER: Final = "\U0010ffff"

Progress = Callable[[int], object]
"""called with the number of steps that are not in the index yet, after every piece"""


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """A step that has everything that was asked for, with an excerpt; or a session, by its name, task or labels."""

    session: str
    name: str | None
    seq: int | None
    """None: the session itself"""
    kind: str
    at: datetime
    text: str
    abandoned: bool = False
    """the step was rewound: it is not on the path to the head any more"""

    @property
    def ref(self) -> str:
        """The reference that other verbs take."""
        title = self.name or self.session[:8]
        return title if self.seq is None else f"{title}@{self.seq}"


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, newest first, and whether everything was searched."""

    hits: list[SearchHit]
    complete: bool = True
    """every step was searched that is older than `before`"""
    note: str = ""
    """what was not searched, and what to do about it"""
    next: int | None = None
    """`before` of the search that continues this one; None if there is no more"""


def search_document(found: SearchResult) -> dict[str, Any]:
    """The JSON form of a result, the same at every entry point."""
    hits = [{"ref": hit.ref, **msgspec.to_builtins(hit)} for hit in found.hits]
    return {"items": hits, "complete": found.complete, "note": found.note, "next": found.next}


def search(
    context: Context,
    text: str,
    *,
    session: str | None = None,
    since_us: int | None = None,
    most: int = 20,
    before: int | None = None,
    seconds: float = CATCH_UP_SECONDS,
    progress: Progress | None = None,
) -> SearchResult:
    """Find text in all sessions, or in one with what it inherited. UsageError if there is no word in the text."""
    query = parse(text)
    most = max(1, most)
    if session is not None:
        return _in_session(context, resolve(context.store, session), query, since_us, most, before)
    named = _named(context, query, since_us, most) if before is None else []
    if not context.store.info.indexed:
        return _scanned(context, query, named, since_us, most)
    return _indexed(context, query, named, since_us, most, before, seconds, progress)


def catch_up(store: stores.Store, *, seconds: float | None = None, progress: Progress | None = None) -> int:
    """Add steps to the index, for so many seconds or until all are in it; how many are left. Does nothing to a store
    that cannot be written."""
    index = cast(IndexedStore, store)
    if not store.info.indexed:
        return 0
    left = index.count_unindexed()
    if store.info.read_only:
        return left
    end = None if seconds is None else store.instant().us + round(seconds * 1e6)
    while left and (end is None or store.instant().us < end):
        piece = index.list_unindexed(PIECE_STEPS)
        words = [_words(one) for one in piece]
        try:
            added = bool(words) and index.index_steps(words)
        except (StoreFull, StoreReadOnly):  # what is missing is read instead, as far as a search reads
            return left
        left = max(0, left - len(words)) if added else index.count_unindexed()
        if progress is not None:
            progress(left)
    return left


def _words(one: StoredText) -> Words:
    words = frozenset(words_of(text_of(one.body, one.label)))
    return Words(place=one.place, session=one.session, seq=one.seq, words=words)


# -- with an index -------------------------------------------------------------------------------------------------


def _indexed(
    context: Context,
    query: Query,
    named: list[SearchHit],
    since_us: int | None,
    most: int,
    before: int | None,
    seconds: float,
    progress: Progress | None,
) -> SearchResult:
    store = context.store
    index = cast(IndexedStore, store)
    left = index.count_unindexed()
    if left >= _WORTH_ADDING:
        left = catch_up(store, seconds=seconds, progress=progress)
    # The unindexed steps first: one that gets into the index meanwhile is then in both, and in neither otherwise.
    tail = index.list_unindexed(TAIL_STEPS, newest=True) if left else []
    found = list(_matching(query, (one for one in tail if before is None or one.place < before), since_us))
    read, last, more, looked = 0, 0, False, 0
    for chunk, reached, entries in _candidates(index, query, before):
        if len(found) > most or read >= MAX_READ or looked >= MAX_LOOKED:
            more = True
            break
        read, last, looked = read + len(chunk), reached, looked + entries
        if not chunk:
            continue
        known = {one.place for one, _ in found}
        texts = sorted(index.read_places(chunk), key=lambda one: -one.place)
        found += _matching(query, (one for one in texts if one.place not in known), since_us)
    missing = max(0, left - len(tail))
    following = found[most - 1][0].place if len(found) > most else last if more else None
    return SearchResult(
        hits=[*named, *_hits(context, found[:most])],
        complete=not missing,
        note=f"{missing:,} steps are not in the index yet and were not searched; relight migrate adds them"
        if missing
        else "",
        next=following,
    )


def _candidates(index: IndexedStore, query: Query, before: int | None) -> Iterator[tuple[list[int], int, int]]:
    """Places of the steps that have all words, newest first, in chunks, of which some are empty. Each with the place
    down to which everything was seen, and with how many entries of the index were compared for it."""
    newest = index.newest_block()
    if before is not None:
        newest = min(newest, blocks.block_of(before))
    end, size, asked = newest, 1, _ranges(query.terms)
    while end >= 0:
        window = range(max(0, end - size + 1), end + 1)
        fitting, looked = _in_window(index, asked, window)
        end, size = end - size, min(4 * size, _WINDOW) if looked < MAX_LOOKED // 4 else max(1, size // 4)
        places = [
            place
            for block in sorted(fitting, reverse=True)
            for place in sorted((blocks.place_of(block, one) for one in fitting[block]), reverse=True)
            if before is None or place < before
        ]
        for start in range(0, len(places), _CHUNK):
            chunk = places[start : start + _CHUNK]
            yield chunk, chunk[-1], 0
        if end >= 0:
            yield [], blocks.place_of(window.start, 0), looked


def _in_window(index: IndexedStore, asked: list[tuple[str, str]], window: range) -> tuple[dict[int, set[int]], int]:
    """Block to the steps that have all words; and how many entries were compared. A word that is nowhere in the window
    becomes the first of those asked for: so the common ones need not be read in the next."""
    rows: list[dict[int, list[bytes]]] = []
    among: Sequence[int] = window
    for number, (first, last) in enumerate(asked):
        found: dict[int, list[bytes]] = {}
        for block, stored in index.find_words(first, last, among):
            found.setdefault(block, []).append(stored)
        rows.append(found)
        among = list(found)
        if not among:
            asked.insert(0, asked.pop(number))
            return {}, 0
    fitting, looked = {}, 0
    for block in among:  # the rarest of its words as a set, the others are only gone through, until nothing is left
        steps: set[int] | None = None
        for parts in sorted((found[block] for found in rows), key=lambda parts: sum(map(len, parts))):
            read = chain.from_iterable(map(blocks.offsets, parts))
            steps = set(read) if steps is None else steps.intersection(read)
            looked += sum(map(len, parts)) // 2
            if not steps:
                break
        else:
            fitting[block] = steps or set()
    return fitting, looked


def _ranges(terms: Iterable[Term]) -> list[tuple[str, str]]:
    """First and last word of each word asked for; the longest first, because few steps have them."""
    asked = {
        (word, word + _LAST_CHARACTER if term.is_prefix and number == len(term.words) else word)
        for term in terms
        for number, word in enumerate(term.words, 1)
    }
    return sorted(asked, key=lambda one: (one[0] != one[1], -len(one[0]), one))


# -- without ---------------------------------------------------------------------------------------------------------


def _scanned(context: Context, query: Query, named: list[SearchHit], since_us: int | None, most: int) -> SearchResult:
    """The newest sessions, read one after the other up to a bound."""
    store = context.store
    found: list[tuple[StoredText, str]] = []
    left = MAX_SCANNED
    for record in listing.every_session(store, stores.Query()):
        session = record.identity.id
        texts = [_text(step) for step in islice(store.steps(session), left)]
        left -= len(texts)
        found += _matching(query, reversed(texts), since_us)
        if left <= 0:
            break
    found.sort(key=lambda one: (-one[0].at_us, one[0].session, -one[0].seq))
    note = (
        f"a {store.info.kind} store has no index of words: names and {MAX_SCANNED:,} steps of the newest sessions were "
        "searched; all of one session: relight search TEXT --session REF"
    )
    hits = [*named, *_hits(context, found[:most])]
    return SearchResult(hits=hits, complete=left > 0, note="" if left > 0 else note)


def _in_session(
    context: Context, found: Found, query: Query, since_us: int | None, most: int, before: int | None
) -> SearchResult:
    """All steps of a session, those that it inherited among them; `before` is a seq here."""
    store = context.store
    newest = found.whole_head().seq if found.seq is None else found.seq
    newest = newest if before is None else min(newest, before - 1)
    steps = (
        _text(step)
        for stretch in stretches(chain_of(store, found.identity), after=0, upto=newest)
        for step in store.steps(stretch.session, after=stretch.after, upto=stretch.upto)
    )
    kept = deque(_matching(query, steps, since_us), maxlen=most + 1)
    more = len(kept) > most
    if more:
        kept.popleft()
    return SearchResult(hits=_hits(context, list(reversed(kept))), next=kept[0][0].seq if more else None)


# -- results ---------------------------------------------------------------------------------------------------------


def _text(step: Step) -> StoredText:
    return StoredText(
        place=step.seq,
        session=step.session,
        seq=step.seq,
        kind=step.kind,
        at_us=step.at_us,
        label=step.label,
        body=step.body,
    )


def _matching(query: Query, texts: Iterable[StoredText], since_us: int | None) -> Iterator[tuple[StoredText, str]]:
    """The texts that have everything that was asked for, each with its excerpt."""
    for one in texts:
        if since_us is not None and one.at_us < since_us:
            continue
        shown = excerpt(query, text_of(one.body, one.label))
        if shown is not None:
            yield one, shown


def _hits(context: Context, found: Sequence[tuple[StoredText, str]]) -> list[SearchHit]:
    oldest: dict[str, int] = {}
    for one, _ in found:
        oldest[one.session] = min(one.seq, oldest.get(one.session, one.seq))
    names, paths = {}, {}
    for session, seq in oldest.items():
        record = context.store.find(session)
        names[session] = record.identity.name if record is not None else None
        head = record.head if record is not None else None
        paths[session] = _path(context, head, seq) if head is not None else [range(seq, sys.maxsize)]
    return [
        SearchHit(
            session=one.session,
            name=names[one.session],
            seq=one.seq,
            kind=one.kind,
            at=at(one.at_us),
            text=shown,
            abandoned=one.kind != "rewind" and not any(one.seq in steps for steps in paths[one.session]),
        )
        for one, shown in found
    ]


def _path(context: Context, head: Head, oldest: int) -> list[range]:
    """The steps from `oldest` on that lead to the head, as stretches that follow each other without a jump."""
    store = context.store
    if store.info.indexed:
        jumps = cast(IndexedStore, store).list_jumps(head.session, after=oldest - 1)
    else:
        rows = store.checkpoints(head.session, after=oldest - 1)
        jumps = [(row.seq, row.base) for row in rows if row.base != row.seq - 1]
    path, seq = [], head.head
    for jump, base in reversed(jumps):
        if oldest <= jump <= seq:
            path.append(range(jump, seq + 1))
            seq = base
    return [*path, range(oldest, seq + 1)]


def _named(context: Context, query: Query, since_us: int | None, most: int) -> list[SearchHit]:
    """Sessions by their name, id, key, task or labels."""
    words = sorted({word for term in query.terms for word in term.words}, key=lambda word: (-len(word), word))
    records: list[stores.Record] | None = None
    for word in words[:_MAX_WORDS]:  # the next one where this one is in more names than are looked at
        found_by = context.store.list_sessions(stores.Query(text=word, created_since_us=since_us, limit=_MAX_NAMED))
        records = found_by if records is None or len(found_by) < len(records) else records
        if len(records) < _MAX_NAMED:
            break
    found = []
    for record in records or ():
        identity = record.identity
        shown = excerpt(query, named_text(identity))
        if shown is not None:
            found.append(
                SearchHit(
                    session=identity.id,
                    name=identity.name,
                    seq=None,
                    kind="session",
                    at=at(identity.created_us),
                    text=shown,
                )
            )
    return found[:most]
