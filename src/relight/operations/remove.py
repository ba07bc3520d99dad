"""Remove: delete sessions, or what a checkpoint holds besides its step, and free the content that nothing names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import msgspec

from relight.errors import Conflict, Corrupt, HasForks, NotFound, RelightError, StoreUnavailable
from relight.history.listing import below, every_session
from relight.history.loading import Found, chain_of, step_at
from relight.journal.codec import decode_changes
from relight.journal.files.undo_log import is_operation
from relight.journal.lineage import inherited, owner_of
from relight.operations.retention import tombstones_for
from relight.ports.store import CheckpointRow, Query, Seen
from relight.sessions.context import Context
from relight.sessions.opening import evidence_of, refuse_if_held
from relight.values.policy import Retention
from relight.values.session import Head, Identity
from relight.values.step import Step

KINDS: Final = ("child", "fork")
_DROP_TRIES: Final = 20


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed, or in a dry run would be."""

    sessions: list[str]
    names: list[str]
    steps: int
    size_bytes: int
    """size of their journals"""
    file_bytes: int = 0
    """size of captured files that no other session needs"""
    dry_run: bool = False

    def __len__(self) -> int:
        return len(self.sessions)


def drop(
    context: Context, found: Found, *, with_forks: bool = False, with_children: bool = False, dry_run: bool = False
) -> Removed:
    """Remove a session with everything of its own, sub-agents of its coding agent included. Refused while it is owned,
    while forks read from it, or while other children name it as their parent."""
    under = list(below(context.store, found.identity.id, "child", "fork"))
    names = {
        kind: [one.identity.name or one.identity.id for how, one in under if how == kind and not one.identity.subagent]
        for kind in KINDS
    }
    forks, children = ([] if with_forks else names["fork"]), ([] if with_children else names["child"])
    if forks or children:
        raise HasForks(found.identity.name or found.identity.id, forks, children)
    family = [(found.identity, found.head), *((one.identity, one.head) for _, one in under)]
    for identity, head in family:
        if head is not None:
            refuse_if_held(context, identity, head, evidence_of(context, head))
    return remove_sessions(context, family, dry_run=dry_run, thorough=True)


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint lost. Its step remains."""

    checkpoint: str
    labels: int
    snapshots: int
    kept: int = 0
    """snapshots that stay, because another checkpoint, a fork or the session itself continues from them"""


def drop_checkpoint(context: Context, found: Found) -> Forgotten:
    """Remove a checkpoint's labels, and those of its snapshots that nothing continues from. Never the step.

    A sweep then frees content that nothing else needs. Every other checkpoint restores as before.
    """
    seq = found.seq if found.seq is not None else found.whole_head().head
    if seq < 1:
        raise NotFound(f"{found.identity.id}@{seq}", what="checkpoint")
    chain = chain_of(context.store, found.identity)
    owner = owner_of(chain, seq)
    _note_unlabelled(context, step_at(context.store, chain, seq))
    labels = context.store.unlabel(owner, seq)
    for _ in range(_DROP_TRIES):
        rows, seen, head = _observed(context, owner)
        begun, following = _going_on(context, seen.values(), seq)
        is_followed = begun or seq == head.head or _is_undo_target(context, chain, seq)
        kept = set(inherited([*rows, *following], seq, has_successor=is_followed))
        going = {root for row in rows if row.seq == seq for root in row.snapshots} - kept
        try:
            dropped = context.store.drop_snapshots(
                owner, seq, roots=going, seen=Seen(seq=head.seq, forks=frozenset(seen))
            )
        except Conflict:
            continue  # a commit or fork meanwhile may continue from it: read again
        return Forgotten(checkpoint=f"{owner}@{seq}", labels=labels, snapshots=dropped, kept=len(kept))
    raise Conflict(f"{owner}@{seq}: the session kept changing; its files were left as they are")


def _going_on(context: Context, forks: Iterable[Identity], seq: int) -> tuple[bool, list[CheckpointRow]]:
    """Whether one of these forks begins at the step, or a fork of one of them that begins in what both inherit; and
    their steps that follow it because they were rewound to it."""
    following: list[CheckpointRow] = []
    for fork in forks:
        begins = fork.parent.seq if fork.parent is not None else 0
        if begins == seq:
            return True, []
        if begins > seq:
            following += [row for row in context.store.checkpoints(fork.id) if row.base == seq]
            begun, more = _going_on(context, _forks_of(context, fork.id), seq)
            if begun:
                return True, []
            following += more
    return False, following


def _forks_of(context: Context, session: str) -> list[Identity]:
    return [one.identity for one in every_session(context.store, Query(parent=session))]


def _note_unlabelled(context: Context, step: Step) -> None:
    """Before the label is removed: the step's digest covers it, so `verify` would report it as lost."""
    if step.label is not None:
        context.store.update(
            step.session,
            lambda now: msgspec.structs.replace(now, unlabelled=sorted({*now.unlabelled, step.seq})),
        )


def _observed(context: Context, session: str) -> tuple[list[CheckpointRow], dict[str, Identity], Head]:
    """Its steps without bodies, its forks, its head. The head is read first, so that any later commit makes it
    outdated."""
    record = context.store.find(session)
    if record is None:
        raise NotFound(session)
    if record.head is None:
        raise Corrupt("its head fails its seal", session=session)
    forks = {one.id: one for one in _forks_of(context, session)}
    return list(context.store.checkpoints(session)), forks, record.head


def _is_undo_target(context: Context, chain: list[Identity], seq: int) -> bool:
    """Whether a restore or rewind began here: undo returns to its safety snapshot."""
    return is_operation(decode_changes(step_at(context.store, chain, seq).body).note)


def remove_sessions(
    context: Context,
    going: Sequence[tuple[Identity, Head | None]],
    *,
    dry_run: bool,
    thorough: bool,
    policy: Retention | None = None,
    by: str = "",
) -> Removed:
    removed = Removed(
        sessions=[identity.id for identity, _ in going],
        names=[identity.name or identity.id for identity, _ in going],
        steps=sum(_own_steps(identity, head) for identity, head in going),
        size_bytes=sum(head.size_bytes for _, head in going if head is not None),
        dry_run=dry_run,
    )
    if removed.sessions and not dry_run:
        if any(identity.pools for identity, _ in going):
            context.workspaces().check_location()  # first: if it fails later, their files would be orphaned
        epochs = {identity.id: head.epoch for identity, head in going if head is not None}
        with tombstones_for(
            context, removed.sessions, policy=policy, by=by, steps=removed.steps, size=removed.size_bytes
        ):
            # With `epochs` the store refuses if one of them was claimed since it was read.
            context.store.delete(removed.sessions, epochs=epochs)
        _clear_runtimes(context, going)
    grace_seconds = policy.grace_seconds if policy is not None else 0.0
    freed = _sweep_files(context, going, dry_run=dry_run, thorough=thorough, grace_seconds=grace_seconds)
    return msgspec.structs.replace(removed, file_bytes=freed)


def _clear_runtimes(context: Context, going: Sequence[tuple[Identity, Head | None]]) -> None:
    """Remove terminals, sandbox homes and run directories. After the rows: what a kill leaves in between, a sweep
    removes."""
    for identity, head in going:
        if identity.command is not None and head is not None and head.handle:
            try:
                context.runtime(identity).destroy(head.handle)
            except RelightError as error:
                context.notify(f"{head.handle} could not be removed: {error}")
        context.remove_run_directory(identity.id)


def _sweep_files(
    context: Context,
    going: Sequence[tuple[Identity, Head | None]],
    *,
    dry_run: bool,
    thorough: bool,
    grace_seconds: float,
) -> int:
    """Remove content that no step names. A removal sweeps its own pools completely; a sweep covers all pools."""
    gone = [identity.id for identity, _ in going]
    pools = (
        {pool for identity, _ in going for pool in identity.pools.values()}
        if thorough
        else context.store.list_pools() | context.workspaces().pools()
    )
    freed = 0
    for pool in sorted(pools):
        live = partial(_live, context, pool, gone)
        try:
            freed += (
                context.workspaces()
                .sweep(pool, live, dry_run=dry_run, thorough=thorough, grace_seconds=grace_seconds)
                .bytes_removed
            )
        except Corrupt as error:
            # The rest of a damaged pool may be all that can still be saved, so nothing is removed from it. The other
            # pools are swept.
            context.notify(f"a damaged pool was left as it is: {error.message}")
        except StoreUnavailable as error:
            if gone and not dry_run:
                error.evidence = (*error.evidence, "the journal is removed; captured files are still there")
                error.hints = (*error.hints, "once it answers, this removes them: relight sweep")
            raise
    return freed


def _live(context: Context, pool: str, gone: Sequence[str]) -> frozenset[str]:
    return context.store.list_snapshots(pool, without=gone)


def _own_steps(identity: Identity, head: Head | None) -> int:
    if head is None:
        return 0
    return head.seq - (identity.parent.seq if identity.parent is not None else 0)
