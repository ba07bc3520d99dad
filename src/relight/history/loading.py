"""Loading: from a reference to a verified state, without changing anything.

Reads the steps from the last reset to the checkpoint, checks every link of the digest chain, and folds the visible
ones. A broken step on the visible path is an error that names it and offers the newest whole checkpoint; a broken step
that a rewind has hidden is only reported by `verify`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from relight.errors import Ambiguous, Corrupt, NotFound
from relight.journal.chain import broken_links
from relight.journal.codec import Undecodable, decode_all
from relight.journal.lineage import owner_of, stretches, visible
from relight.ports.store import Record, Store
from relight.sessions.names import find_exactly, find_former
from relight.values.ref import PREFIX_MIN, Ref, parse_ref
from relight.values.session import GENESIS, Head, Identity, Parent
from relight.values.step import Step

if TYPE_CHECKING:
    from relight.journal.fold import Fold

MAX_GENERATIONS: Final = 1000
MAX_CANDIDATES: Final = 10
_FOLD_ERRORS: Final = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""what folding raises on values that no writer of ours wrote; a broad `except` would also catch signal handlers"""
_OFFER_TRIES: Final = 64


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a reference resolves to. `seq` is None if it named only the session."""

    identity: Identity
    head: Head | None
    seq: int | None

    def whole_head(self) -> Head:
        """The head, or Corrupt if its row fails its seal."""
        if self.head is None:
            raise Corrupt("its head row fails its seal", session=self.identity.id)
        return self.head


def resolve(store: Store, text: str) -> Found:
    """Resolve a full id, an exact name, an id prefix of at least 4 characters, or the former name of an archived
    session, if only one had it; then `@seq` or `@label`."""
    ref = parse_ref(text)
    record = find_exactly(store, ref.session) or by_prefix(store, ref.session)
    if record is None:
        record = _only(ref.session, find_former(store, ref.session))
    elif record.identity.name == ref.session and record.head is not None and record.head.status == "archived":
        # It still has the name because no other session took it since: that is no more than having had it.
        record = _only(ref.session, [record, *find_former(store, ref.session)])
    if record is None:
        raise NotFound(text)
    return Found(identity=record.identity, head=record.head, seq=_position(store, record, ref))


def by_prefix(store: Store, text: str, *, least: int = PREFIX_MIN) -> Record | None:
    """By an id prefix of at least so many characters. Ambiguous if several ids match."""
    return _only(text, store.find_prefixed(text, MAX_CANDIDATES + 1)) if len(text) >= least else None


def _only(text: str, found: Sequence[Record]) -> Record | None:
    """The one that was found, if any. Ambiguous if there are several."""
    if len(found) > 1:
        known = [(one.identity.id, one.identity.name or one.identity.former_name) for one in found]
        lines = [f"{id[:12]}  {name or '-'}" for id, name in known[:MAX_CANDIDATES]]
        named = [one.identity.name for one in found]
        candidates = [
            one.identity.id if name is None or name == text else name for one, name in zip(found, named, strict=True)
        ]
        raise Ambiguous(text, candidates, evidence=lines)
    return found[0] if found else None


def _position(store: Store, record: Record, ref: Ref) -> int | None:
    if ref.label is not None:
        upto = None
        for identity in chain_of(store, record.identity):
            seq = store.find_label(identity.id, ref.label, upto=upto)
            if seq is not None:
                return seq
            if identity.parent is not None:  # labels the parent got after the fork do not belong to it
                upto = identity.parent.seq if upto is None else min(upto, identity.parent.seq)
        raise NotFound(str(ref), what="checkpoint")
    if ref.seq is None:
        return None
    newest = record.head.seq if record.head is not None else ref.seq
    if not 1 <= ref.seq <= newest:
        raise NotFound(str(ref), what="checkpoint", evidence=[f"it has @1 to @{newest}"] if newest else ())
    return ref.seq


def chain_of(store: Store, identity: Identity) -> list[Identity]:
    """The session, its parent, its parent's parent, and so on."""
    chain = [identity]
    while (parent := chain[-1].parent) is not None:
        if len(chain) > MAX_GENERATIONS:
            raise Corrupt("too many ancestors, or a cycle among them", session=identity.id)
        record = store.find(parent.session)
        if record is None:
            raise Corrupt(f"the session it was forked from is missing ({parent})", session=identity.id)
        chain.append(record.identity)
    return chain


def step_at(store: Store, chain: list[Identity], seq: int) -> Step:
    """One step, from whichever ancestor stores it."""
    session = owner_of(chain, seq)
    for step in store.steps(session, after=seq - 1, upto=seq):
        return step
    raise Corrupt("the step is missing", session=chain[0].id, seq=seq)


def load(store: Store, found: Found) -> Fold:
    """The state at a checkpoint, or at the head. Corrupt names the broken step and the newest whole one before it."""
    chain = chain_of(store, found.identity)
    try:
        if found.seq is None and found.head is not None:
            _check_newest(store, found.head)
        return _load(store, chain, found.head, found.seq)
    except Corrupt as error:
        if store.find(found.identity.id) is None:
            raise NotFound(found.identity.name or found.identity.id) from None  # removed while we read
        if error.seq is None:
            offered = newest_whole(store, chain, below=_newest(store, chain) + 1)
        else:
            offered = newest_whole(store, chain, below=error.seq)
        raise _offering(error, found, offered) from None


def readable_head(store: Store, found: Found) -> Head:
    """The head; if its row fails its seal, Corrupt with the checkpoint to continue from, as in `load`."""
    if found.head is None:
        load(store, Found(identity=found.identity, head=None, seq=None))
    return found.whole_head()


def load_returned(store: Store, found: Found, seq: int) -> Fold:
    """The state at a checkpoint as after a rewind to it: with knowledge of the effects that ran since."""
    chain = chain_of(store, found.identity)
    return _load(store, chain, None, seq, newest=found.whole_head().seq)


def load_forked(store: Store, found: Found, seq: int) -> Fold:
    """The state at a checkpoint as a fork made there now would have it."""
    parent = Parent(session=found.identity.id, seq=seq, known=found.whole_head().seq)
    made = msgspec.structs.replace(found.identity, id="", parent=parent)
    return _load(store, [made, *chain_of(store, found.identity)], None, seq, newest=seq)


def _check_newest(store: Store, head: Head) -> None:
    """A head older than its journal would serve a truncated history. One that moves while we read is not damage."""
    if has_steps_after(store, head):
        # Read again: if the row has moved meanwhile, the steps behind the old one are new commits and no damage.
        record = store.find(head.session)
        if record is not None and record.head is not None and record.head.seq == head.seq:
            raise Corrupt("the session row is older than its journal", session=head.session, seq=head.seq + 1)


def has_steps_after(store: Store, head: Head) -> bool:
    """Whether the journal has steps that the head does not know."""
    return next(iter(store.steps(head.session, after=head.seq)), None) is not None


def newest_whole(store: Store, chain: list[Identity], *, below: int) -> int | None:
    """The newest checkpoint under `below` that loads; None if there is none."""
    for seq in islice(_present(store, chain, below=below), _OFFER_TRIES):
        try:
            _load(store, chain, None, seq)
        except Corrupt as error:
            # Every checkpoint that builds on the broken step fails the same way, so the search continues right before
            # it.
            if error.seq is not None and error.seq < seq:
                return newest_whole(store, chain, below=error.seq)
            continue
        return seq
    return None


def _present(store: Store, chain: list[Identity], *, below: int) -> Iterator[int]:
    """Seqs under `below` that have a row, newest first; all of them if the rows cannot be listed."""
    for stretch in reversed(stretches(chain, after=0, upto=below - 1)):
        try:
            rows = store.checkpoints(stretch.session, after=stretch.after, upto=stretch.upto)
        except Corrupt:
            yield from range(stretch.upto, stretch.after, -1)
        else:
            yield from (row.seq for row in reversed(rows))


def _newest(store: Store, chain: list[Identity]) -> int:
    newest = max((step.seq for step in store.steps(chain[0].id)), default=0)
    parent = chain[0].parent
    return newest or (parent.seq if parent is not None else 0)


def _offering(error: Corrupt, found: Found, offered: int | None) -> Corrupt:
    name = found.identity.name or found.identity.id
    return Corrupt(
        error.what, session=name, seq=error.seq, offered=f"{name}@{offered}" if offered is not None else None
    )


def _load(
    store: Store, chain: list[Identity], head: Head | None, seq: int | None, *, newest: int | None = None
) -> Fold:
    """Fold the visible steps up to `seq`, or up to the head, whose row must then agree with the journal.

    At the head, and if `newest` says how far the session has come, open calls get what the effect ledger knows.
    """
    # Imported late, because listing sessions needs neither; and both at once, because a writer that reads its session
    # again after an interrupted append must not import anything (see Recorder).
    from relight.history.abandoned_effects import attach_hidden_effects
    from relight.journal.fold import Fold

    session = chain[0].id
    fold = Fold(chain[0].provider)
    if seq is None:
        if head is None:
            raise Corrupt("its head row fails its seal", session=session)
        target, since, upto = head.head, head.since, head.seq
    else:
        head = None
        step = step_at(store, chain, seq) if seq else None
        target = step.base if step is not None and step.kind == "rewind" and newest is not None else seq
        upto = seq if newest is None else newest
        since = step.since if step is not None else 0
    if upto == 0:
        return fold
    # One step before the reset is read too: its digest is what the reset's own link is checked against.
    anchor = max(since - 1, 0)
    steps = [
        step
        for stretch in stretches(chain, after=max(anchor - 1, 0), upto=upto)
        for step in store.steps(stretch.session, after=stretch.after, upto=stretch.upto)
    ]
    path, broken = _checked_path(steps, chain, head, target=target, since=since, anchor=anchor, upto=upto)
    by_seq = {step.seq: step for step in steps}
    _apply(fold, [by_seq[number] for number in path], session)
    if head is not None or newest is not None:
        below = 1 if anchor and steps[0].seq == anchor else 0  # read for its digest alone
        attach_hidden_effects(store, chain, fold, steps[below:], path, broken)
    return fold


def _checked_path(
    steps: list[Step], chain: list[Identity], head: Head | None, *, target: int, since: int, anchor: int, upto: int
) -> tuple[list[int], Collection[int]]:
    session = chain[0].id
    before = steps[0] if anchor and steps and steps[0].seq == anchor else None
    rest = steps[1:] if before is not None else steps
    broken = {
        one.seq: one.what
        for one in broken_links(rest, after=anchor, digest=before.digest if before is not None else _start(anchor))
    }
    last = steps[-1] if steps else None
    if last is None or last.seq < upto:
        raise Corrupt("the step is missing", session=session, seq=(last.seq if last else anchor) + 1)
    if head is not None and last.digest != head.digest:
        broken.setdefault(last.seq, "the step is not the one the session row names")
    path = visible({step.seq: step.base for step in rest}, head=target, since=since)
    for number in path:
        if number in broken:
            raise Corrupt(broken[number], session=session, seq=number)
    _check_whole(path, rest, target=target, since=since, session=session)
    if head is not None and last.seq in broken and not _is_trusted_rewind(last, head):
        raise Corrupt(broken[last.seq], session=session, seq=last.seq)
    return path, broken.keys()


def _is_trusted_rewind(last: Step, head: Head) -> bool:
    """A rewind away from a damaged step cannot match that step's digest; that the sealed head names it is enough."""
    return last.kind == "rewind" and last.digest == head.digest


def _start(anchor: int) -> bytes | None:
    return GENESIS if anchor == 0 else None


def _check_whole(path: list[int], steps: Iterable[Step], *, target: int, since: int, session: str) -> None:
    """Corrupt if the path does not reach its beginning: a step is missing."""
    if target == 0:
        return
    if not path:
        raise Corrupt("the step is missing", session=session, seq=target)
    first = next(step for step in steps if step.seq == path[0])
    if path[0] != since and first.base != 0:
        raise Corrupt("the step is missing", session=session, seq=first.base)


def _apply(fold: Fold, steps: list[Step], session: str) -> None:
    decoded = decode_all([step.body for step in steps])
    seq = 0
    try:
        for step in steps:
            seq = step.seq
            fold.apply(step, next(decoded))
    except Undecodable as error:
        raise Corrupt(f"the step cannot be read: {error}", session=session, seq=seq) from None
    except _FOLD_ERRORS as error:  # a hostile or damaged step must not crash the reader
        what = f"the step cannot be folded: {type(error).__name__}: {error}"
        raise Corrupt(what, session=session, seq=seq) from error
