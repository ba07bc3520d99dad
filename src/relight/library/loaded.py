"""A session's state at a checkpoint, read-only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from relight.history.loading import Found, load
from relight.journal.status import derived_status
from relight.sessions import opening
from relight.sessions.context import Context
from relight.values.call import Call
from relight.values.status import LIVE

if TYPE_CHECKING:
    from relight.journal.fold import Fold


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A session's state at a checkpoint, read-only."""

    session: str
    seq: int
    messages: list[dict[str, Any]]
    state: dict[str, Any]
    calls: list[Call]
    partial: Any
    """the newest partial result"""
    partials: list[Any]
    """all partial results, oldest first"""
    result: Any
    turns: int

    def __repr__(self) -> str:
        return f"<relight Loaded {self.session[:8]}@{self.seq}: {len(self.messages)} messages, {len(self.calls)} calls>"


def loaded(context: Context, found: Found) -> tuple[Loaded, Fold]:
    """The state at a checkpoint, in its public form and as the fold it comes from."""
    fold = load(context.store, found)
    live = found.head is not None and is_live(context, found)
    made = Loaded(
        session=found.identity.id,
        seq=found.seq if found.seq is not None else found.whole_head().head,
        messages=fold.messages,
        state=fold.state,
        calls=fold.calls(doubtful=not live or found.seq is not None),
        partial=fold.partial,
        partials=list(fold.partials),
        result=fold.result,
        turns=fold.turns,
    )
    return made, fold


def is_live(context: Context, found: Found) -> bool:
    """Whether a process owns the session, as far as this machine can see."""
    head = found.whole_head()
    return derived_status(head, opening.evidence_of(context, head))[0] in LIVE
