"""Tool calls and other effects: what was requested, whether it began, how it ended.

A call is finished (it has a result), not started (no intent), or in doubt (an intent and no outcome). Its declared
effect decides what may be done about doubt. The key of an effect is (recording session, seq of the requesting step,
call id): the same id requested by another step is another effect. An effect belongs to the session's whole life and not
to a branch, so a rewind to the requesting step does not make it a new one; a person or the program can allow another
run, under the next generation of its key.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal, get_args

import msgspec

Effect = Literal["pure", "idempotent", "probe", "once"]
EFFECTS: Final[tuple[Effect, ...]] = get_args(Effect)
OutcomeStatus = Literal["ok", "error", "unknown", "void"]

# These texts are part of stored conversations and are recognised again when those are read (formats/content.py), so
# they must not be reworded.
OUTCOME_UNKNOWN: Final = "outcome unknown: it may or may not have taken effect; verify before you retry"
NOT_RUN: Final = "not run: the conversation went on before this call was started"
NOT_RUN_HERE: Final = "not run here: it belongs to "
"""result in a fork for a call that its parent requested; followed by the parent's name"""


class Intent(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Committed before an effect begins."""

    id: str
    """the provider's call id, or the key given to `once`"""
    name: str
    effect: Effect
    asked_seq: int = 0
    """the step that requested it; 0 for `once`"""
    session: str = ""
    """the session that requested it, if a reset carries it over, perhaps in a fork"""
    arguments: Any = None
    """only if `hooked`"""
    hooked: bool = False
    """reported by an agent's hook: matched with its call by id, whichever is recorded first"""
    generation: int = 1
    """number of the run, from 1; each allowed retry is a new generation"""

    @property
    def is_call(self) -> bool:
        """Whether a model requested it (not `once`)."""
        return self.asked_seq > 0


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Committed when an effect has ended, or when its outcome was settled."""

    id: str
    asked_seq: int = 0
    status: OutcomeStatus = "ok"
    """void: the intent no longer counts, so that it may start again: under the same key, or under `generation` of it"""
    content: Any = None
    """what the tool returned, or the text in its place"""
    synthetic: bool = False
    """written by relight, not by the tool"""
    generation: int = 1
    """of the key; for a void outcome, the one that may run from now on"""
    carried_from: str = ""
    """the step that recorded it, on an abandoned branch or in a fork's parent: `<session>@<seq>`"""
    effect: Effect | None = None
    """as declared there; only with `carried_from`"""


class Prior(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What is known about an effect from outside the visible conversation: from abandoned branches, from a fork's
    parent. Only the generation if it was allowed to run again and has not begun."""

    generation: int = 1
    session: str = ""
    """the session that runs this generation, if not the requesting one"""
    effect: Effect | None = None
    begun: bool = False
    intent_seq: int = 0
    started_us: int = 0
    outcome: Outcome | None = None
    at: str = ""
    """the newest step about it, `<session>@<seq>`"""
    belongs_to: str = ""
    """name of the session that requested it, if it is another one: it is not run here"""

    @property
    def in_doubt(self) -> bool:
        """Begun there, and not known to have ended."""
        return self.begun and self.outcome is None


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Identifies the effect of an open call that a reset carries over."""

    id: str
    asked_seq: int
    session: str
    generation: int = 1
    prior: Prior | None = None


class OpenEffect(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """An intent without an outcome, as stored in the head."""

    id: str
    name: str
    effect: Effect
    asked_seq: int = 0
    intent_seq: int
    started_us: int


Action = Literal["run", "run_again", "probe", "carry", "tell_unknown", "not_run_here", "settle"]
"""run: it never began, or may run again. run_again: its effect allows it, under the same key. probe: the tool is asked.
carry: it has an outcome elsewhere. tell_unknown: it is not run, and reported to the model as unknown. not_run_here: a
fork's parent requested it. settle: a `once` key in doubt, which must be settled first."""


class PlannedCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An open call, or a `once` key, and what will be done about it when its session continues."""

    id: str
    name: str
    effect: Effect | None
    """as declared when it began; None if it never began"""
    key: str
    action: Action
    text: str
    """the action as text for users"""
    carried_from: str | None = None
    """the step that recorded the outcome it gets"""


class Call(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One tool call as users see it: intent and result in one value."""

    id: str
    name: str
    arguments: Any
    """the parsed object, or the text if it does not parse"""
    result: Any = None
    success: bool | None = None
    """None while there is no result"""
    effect: Effect | None = None
    """None until it was started"""
    in_doubt: bool = False
    intent_seq: int | None = None
    result_seq: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    asked_seq: int = 0
    """the step whose message requests it"""
    key: str = ""
    """the idempotency key, the same on every try; `KEY/2` once it was allowed to run again"""
    carried_from: str | None = None
    """the step that recorded its result, if on an abandoned branch or in a fork's parent"""
