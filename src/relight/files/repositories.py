"""Checks before a start whether the Git repositories of a workspace are where the last snapshot found them.

Only roots that this session itself captured are compared: a fork in its own directory, or an imported session, may be
elsewhere. If a repository is gone or on another branch, a start is refused until a person accepts it (`accept`), which
is recorded as a step. A program that opens a session itself is refused the same way, unless a supervisor that has
already checked started it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from relight.errors import NotFound, NotResumable, RelightError
from relight.files.restore import position_of, rows_of
from relight.history.events import history
from relight.history.loading import Found, chain_of
from relight.journal.files.repository_state import MOVED, NOTE, moved, repository_head
from relight.journal.lineage import owner_of, visible
from relight.operations.write_once import write_once
from relight.ports.store import CheckpointRow
from relight.sessions.context import Context
from relight.sessions.opening import recorder_for, refuse_archived
from relight.values.checkpoint import Checkpoint
from relight.values.info import Reason
from relight.values.session import Identity
from relight.values.step import Changes

BACK: Final = "or switch the repository back first"


def against(context: Context, found: Found) -> list[Reason]:
    """Reasons against a start: one per root whose repository has moved."""
    cure = f"to accept it: relight resume {_title(found)} --accept-repository"
    return [
        Reason(code=MOVED, text=f"{found.identity.workspace[root]}: {what}", cure=cure)
        for root, what in _seen(context, found).items()
    ]


def check(context: Context, found: Found) -> None:
    """NotResumable if a repository moved, before anything is changed."""
    for reason in against(context, found):
        raise NotResumable(_title(found), reason.text, hints=[reason.cure or "", BACK])


def check_opening(
    context: Context, found: Found, *, before: Identity, rows: Sequence[CheckpointRow] | None = None
) -> None:
    """The same for a program that opens the session itself, with hints for a program. `before`: the session as
    recorded. A root for which the program names another directory is its own decision, and is not compared."""
    kept = {root: path for root, path in found.identity.workspace.items() if before.workspace.get(root) == path}
    if kept:
        for root, what in _seen(context, found, rows).items():
            if root in kept:
                hints = [f"to accept it: rl.files.accept_repository({_title(found)!r})", BACK]
                raise NotResumable(_title(found), f"{kept[root]}: {what}", hints=hints)


def tell(context: Context, found: Found) -> None:
    """The same where what is written has happened already, and a refusal would only lose it."""
    for reason in against(context, found):
        context.notify(f"{_title(found)}: {reason.text}")


def accept(context: Context, found: Found) -> Checkpoint:
    """Record that the repositories are right as they are now. NotFound if none of them has moved."""
    refuse_archived(found)
    if not _moved(context, found):
        raise NotFound(_title(found), what="repository that has moved")
    heads = {}
    for root, path in found.identity.workspace.items():
        _, now = context.workspaces().repository(path)
        heads[root] = repository_head(now)
    return write_once(context, recorder_for(context, found), "mark", Changes(note={NOTE: heads}))


def _title(found: Found) -> str:
    return found.identity.name or found.identity.id[:8]


def _seen(context: Context, found: Found, rows: Sequence[CheckpointRow] | None = None) -> dict[str, str]:
    """As `_moved`, but content that cannot be read is no reason: it is named where it is needed."""
    try:
        return _moved(context, found, rows)
    except RelightError:
        return {}


def _moved(context: Context, found: Found, rows: Sequence[CheckpointRow] | None = None) -> dict[str, str]:
    """Root name to what became of its repository."""
    identity = found.identity
    if not identity.workspace or "imported" in identity.metadata or found.head is None:
        return {}
    if found.seq is not None and found.seq != found.head.head:
        return {}  # it continues as a fork, with its own files
    chain, seq = chain_of(context.store, identity), position_of(found)
    rows = rows_of(context, found) if rows is None else rows
    by_seq = {row.seq: row for row in rows}
    path = visible({row.seq: row.base for row in rows}, head=seq, since=0)
    captured = {root: number for number in path for root in by_seq[number].snapshots}
    trouble: dict[str, str] = {}
    for root, number in captured.items():
        directory = identity.workspace.get(root)
        if directory is None or root not in identity.pools or owner_of(chain, number) != identity.id:
            continue
        is_there, now = context.workspaces().repository(directory)
        recorded = context.workspaces().recorded_head(identity.pools[root], by_seq[number].snapshots[root])
        if (what := moved(repository_head(recorded), is_there=is_there, now=now)) is None:
            continue
        if _accepted(context, found, root, after=number) != repository_head(now):
            trouble[root] = what
    return trouble


def _accepted(context: Context, found: Found, root: str, *, after: int) -> str | None:
    """The newest repository head that a person accepted since the snapshot was taken."""
    accepted = None
    for event in history(context, found, after=after):
        noted = event.note.get(NOTE) if event.note else None
        if isinstance(noted, dict) and root in noted:
            accepted = str(noted[root])
    return accepted
