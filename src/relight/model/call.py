"""Tool calls and other effects: what was asked, whether it began, how it ended.

A call is finished (it has a result), never started (no intent), or in doubt (an intent and no result). Its declared
effect decides what may be done about doubt. The key of an effect is (recording session, seq of the asking step, call
id), so the same id after a rewind is a new effect.
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

    @property
    def is_call(self) -> bool:
        """Did a model ask for it (and not `once`)?"""
        return self.asked_seq > 0


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Committed when an effect has ended, or when somebody decided what to believe about it."""

    id: str
    asked_seq: int = 0
    status: OutcomeStatus = "ok"
    """void: the intent is taken back, so that it may start again under the same key"""
    content: Any = None
    """what the tool returned, or the text that stands for it"""
    synthetic: bool = False
    """written by relight, not by the tool"""


class OpenEffect(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """An intent without an outcome, as the session row knows it."""

    id: str
    name: str
    effect: Effect
    asked_seq: int = 0
    intent_seq: int
    started_us: int


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
    """the idempotency key, the same on every try"""
