"""`verify`: reads everything, trusts nothing, reports every problem, changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from relight.errors import Corrupt, NotFound
from relight.history.listing import every_session
from relight.history.loading import Found, chain_of, load, newest_whole, step_at
from relight.journal.chain import broken_links
from relight.journal.codec import Undecodable, decode_changes
from relight.journal.lineage import named_by, visible
from relight.sessions.context import Context
from relight.values.session import GENESIS, Identity
from relight.values.step import Step


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One damaged step, row or file."""

    session: str | None
    seq: int | None
    what: str
    abandoned: bool = False
    """hidden by a rewind: nothing that is loaded needs it"""
    offered: str | None = None
    """the newest whole checkpoint before it"""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `verify`."""

    sessions: int
    steps: int
    problems: list[Problem]

    @property
    def ok(self) -> bool:
        """Whether everything visible can be loaded."""
        return all(problem.abandoned for problem in self.problems)


def verify(context: Context, found: Found | None, *, files: bool = True) -> Report:
    """Check one session, or the whole store with its own integrity check. `files`: read captured files too."""
    if found is not None:
        steps, problems = _check_session(context, found, files=files)
        return Report(sessions=1, steps=steps, problems=problems)
    problems = _check_store(context)
    sessions = steps = 0
    try:
        for record in every_session(context.store):
            one = Found(identity=record.identity, head=record.head, seq=None)
            try:
                count, more = _check_session(context, one, files=files)
            except NotFound:
                continue  # expired or removed since it was listed
            sessions, steps, problems = sessions + 1, steps + count, problems + more
    except Corrupt as error:
        problems.append(Problem(session=None, seq=None, what=f"sessions cannot be listed: {error.what}"))
    return Report(sessions=sessions, steps=steps, problems=problems)


def _check_store(context: Context) -> list[Problem]:
    """The store's own check; damage that prevents it is a problem itself."""
    try:
        return [Problem(session=None, seq=None, what=damage.what) for damage in context.store.check()]
    except Corrupt as error:
        return [Problem(session=None, seq=None, what=error.what)]


def _check_session(context: Context, found: Found, *, files: bool) -> tuple[int, list[Problem]]:
    """The number of its steps, and what is wrong with it. NotFound if it was removed while it was read: what is missing
    then is no damage."""
    steps, problems = _checked(context, found, files=files)
    if problems and context.store.find(found.identity.id) is None:
        raise NotFound(found.identity.name or found.identity.id)
    return steps, problems


def _checked(context: Context, found: Found, *, files: bool) -> tuple[int, list[Problem]]:
    name = found.identity.name or found.identity.id
    try:
        steps = list(context.store.steps(found.identity.id))
        chain = chain_of(context.store, found.identity)
    except Corrupt as error:
        return 0, [Problem(session=name, seq=error.seq, what=error.what)]
    needed = _needed(found, steps)
    problems = [
        Problem(session=name, seq=seq, what=what, abandoned=needed is not None and seq not in needed)
        for seq, what in _broken(context, chain, steps)
    ]
    problems += _head_problems(context, found, steps, name, known={one.seq for one in problems})
    problems += _row_problems(context, found.identity, name, steps, known={one.seq for one in problems})
    problems += _file_problems(context, found.identity, name) if files else []
    if problems and not problems[0].abandoned:
        problems[0] = msgspec.structs.replace(problems[0], offered=_offer(context, chain, problems[0], name))
    return len(steps), problems


def _row_problems(
    context: Context, identity: Identity, name: str, steps: list[Step], *, known: set[int | None]
) -> list[Problem]:
    """Rows beside the chain that contradict their step: its snapshots, its label."""
    try:
        rows = {row.seq: row for row in context.store.checkpoints(identity.id)}
    except Corrupt as error:
        return [Problem(session=name, seq=error.seq, what=error.what)]
    problems = []
    for step in steps:
        row = rows.get(step.seq)
        if row is None or step.seq in known:
            continue
        if row.snapshots and not named_by(row.snapshots, decode_changes(step.body).snapshot or {}):
            what = "its files are not those that the step named"
            problems.append(Problem(session=name, seq=step.seq, what=what))
        if step.label is not None and row.label != step.label and _is_label_gone(context, identity, step, row.label):
            what = f"its step was given the label {step.label!r}, which is not there any more"
            problems.append(Problem(session=name, seq=step.seq, what=what))
    return problems


def _is_label_gone(context: Context, identity: Identity, step: Step, now: str | None) -> bool:
    """Whether a label covered by the chain was moved or renamed. One that is only missing may have been removed on
    purpose."""
    assert step.label is not None
    if step.seq in identity.unlabelled or "imported" in identity.metadata:  # a bundle holds only a step's newest label
        return False
    try:
        elsewhere = context.store.find_label(identity.id, step.label)
    except Corrupt:
        return True
    return (elsewhere is not None) if now is None else (elsewhere is None)


def _file_problems(context: Context, identity: Identity, name: str) -> list[Problem]:
    """Checkpoints whose captured files are incomplete. Their conversation is whole all the same."""
    if not identity.pools:
        return []
    rows = context.store.checkpoints(identity.id)
    problems: list[Problem] = []
    for root, pool in identity.pools.items():
        named = dict.fromkeys(row.snapshots[root] for row in rows if root in row.snapshots)
        broken = context.workspaces().broken(pool, named)
        problems += [
            Problem(session=name, seq=row.seq, what=f"the files of {root} cannot be restored: {why}")
            for row in rows
            if (why := broken.get(row.snapshots.get(root, ""))) is not None
        ]
    return problems


def _needed(found: Found, steps: list[Step]) -> set[int] | None:
    """The seqs on the visible path; None if the head cannot be trusted, so that everything is needed."""
    head = found.head
    if head is None:
        return None
    bases = {step.seq: step.base for step in steps}
    needed = set(visible(bases, head=head.head, since=0))
    if not steps or steps[-1].digest != head.digest:
        needed.add(head.seq)
    begins = found.identity.parent.seq if found.identity.parent is not None else 0
    gap = bases[min(needed & bases.keys())] if needed & bases.keys() else head.head
    if gap > begins:  # the path ends at a missing step: which steps before it are visible is unknown, so all count
        needed.update(range(begins + 1, gap + 1))
    return needed


def _broken(context: Context, chain: list[Identity], steps: list[Step]) -> Iterator[tuple[int, str]]:
    parent = chain[0].parent
    digest: bytes | None = GENESIS
    if parent is not None and parent.seq:
        try:  # the fork point may be stored by an older ancestor
            digest = step_at(context.store, chain[1:], parent.seq).digest
        except Corrupt:
            digest = None
    bad = set()
    for link in broken_links(steps, after=parent.seq if parent is not None else 0, digest=digest):
        bad.add(link.seq)
        yield link.seq, link.what
    for step in steps:
        if step.seq not in bad:
            try:
                decode_changes(step.body)
            except Undecodable as error:
                yield step.seq, f"the step cannot be read: {error}"


def _head_problems(
    context: Context, found: Found, steps: list[Step], name: str, *, known: set[int | None]
) -> list[Problem]:
    if found.head is None:
        return [Problem(session=name, seq=None, what="its head row fails its seal")]
    try:
        load(context.store, found)
    except Corrupt as error:
        return [] if error.seq in known else [Problem(session=name, seq=error.seq, what=error.what)]
    return []


def _offer(context: Context, chain: list[Identity], problem: Problem, name: str) -> str | None:
    below = (
        problem.seq
        if problem.seq is not None
        else (max((s.seq for s in context.store.steps(chain[0].id)), default=0) + 1)
    )
    good = newest_whole(context.store, chain, below=below)
    return f"{name}@{good}" if good is not None else None
