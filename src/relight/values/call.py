"""Tool calls and other effects: what was asked, whether it began, how it ended.

A call is finished (it has a result), never started (no intent), or in doubt (an intent and no result). Its declared
effect decides what may be done about doubt. The key of an effect is (recording session, seq of the asking step, call
id): the same id asked for by another step is another effect. An effect belongs to the session's whole life and not to a
branch of it, so a rewind to the asking step does not make it a new one; a person or the program can let it run again,
under the next generation of its key.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal, get_args

import msgspec

Effect = Literal["pure", "idempotent", "probe", "once"]
EFFECTS: Final[tuple[Effect, ...]] = get_args(Effect)
OutcomeStatus = Literal["ok", "error", "unknown", "void"]

OUTCOME_UNKNOWN: Final = "outcome unknown: it may or may not have taken effect; verify before you retry"
NOT_RUN: Final = "not run: the conversation went on before this call was started"
NOT_RUN_HERE: Final = "not run here: it belongs to "
"""what a fork says of a call that its parent asked for; the parent's name follows"""


class Intent(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Committed before an effect begins."""

    id: str
    """the provider's call id, or the key given to `once`"""
    name: str
    effect: Effect
    asked_seq: int = 0
    """the step that asked for it; 0 for `once`"""
    session: str = ""
    """the session that asked for it, where a reset carries it on, perhaps in a fork"""
    arguments: Any = None
    """only where `hooked`"""
    hooked: bool = False
    """an agent's hook told of it: it is matched with its call by id, whichever comes first into the journal"""
    generation: int = 1
    """which of the runs that somebody allowed it is"""

    @property
    def is_call(self) -> bool:
        """Did a model ask for it (and not `once`)?"""
        return self.asked_seq > 0


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Committed when an effect has ended, or when somebody decided what to believe about it."""

    id: str
    asked_seq: int = 0
    status: OutcomeStatus = "ok"
    """void: the intent is taken back, so that it may start again: under the same key, or under `generation` of it"""
    content: Any = None
    """what the tool returned, or the text that stands for it"""
    synthetic: bool = False
    """written by relight, not by the tool"""
    generation: int = 1
    """of the key; of a void outcome the one that may run from here on"""
    carried_from: str = ""
    """the step it was recorded by, on a branch that was left or in a fork's parent: `<session>@<seq>`"""
    effect: Effect | None = None
    """as it was declared there; only with `carried_from`"""


class Prior(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What is known of an effect from outside the visible conversation: from branches that were left, from a fork's
    parent. Nothing but the generation where it was allowed to run again and has not begun."""

    generation: int = 1
    session: str = ""
    """whose run this generation is, where it is not the asking session's"""
    effect: Effect | None = None
    begun: bool = False
    intent_seq: int = 0
    started_us: int = 0
    outcome: Outcome | None = None
    at: str = ""
    """the step that tells the newest of it, `<session>@<seq>`"""
    belongs_to: str = ""
    """the name of the session that asked for it, where that is another one: it is not run here"""

    @property
    def in_doubt(self) -> bool:
        """Begun there, and not known to have ended."""
        return self.begun and self.outcome is None


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which effect an open call is, where a reset carries it on."""

    id: str
    asked_seq: int
    session: str
    generation: int = 1
    prior: Prior | None = None


class OpenEffect(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """An intent without an outcome, as the session row knows it."""

    id: str
    name: str
    effect: Effect
    asked_seq: int = 0
    intent_seq: int
    started_us: int


Action = Literal["run", "run_again", "probe", "carry", "tell_unknown", "not_run_here", "settle"]
"""run: it never began, or somebody let it run again. run_again: its effect allows it, under the same key. probe: the
tool is asked. carry: it has an outcome elsewhere. tell_unknown: it is not run, and the model is told. not_run_here: a
fork's parent asked for it. settle: a `once` key in doubt, which somebody has to decide first."""


class PlannedCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An open call, or a key of `once`, and what will be done about it when its session goes on."""

    id: str
    name: str
    effect: Effect | None
    """as it was declared where it began; None where it never began"""
    key: str
    action: Action
    text: str
    """the same for a person"""
    carried_from: str | None = None
    """the step that recorded the outcome it gets"""


class Call(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One tool call as users see it: intent and result folded into one row."""

    id: str
    name: str
    arguments: Any
    """the parsed object, or the text where it does not parse"""
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
    """the step whose message asks for it"""
    key: str = ""
    """the idempotency key, the same on every try; `KEY/2` once somebody let it run again"""
    carried_from: str | None = None
    """the step that recorded its result, where that is on a branch that was left or in a fork's parent"""
