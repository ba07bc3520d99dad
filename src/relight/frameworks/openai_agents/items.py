"""What the verbs of a session of the OpenAI Agents SDK write. Pure: from the present state to a write.

Items are the session's messages, verbatim. Beside them, in its state: the run that waits for a decision, with the ids
of the calls it waits with, and the branches. A run that waits is over as soon as one of those calls has an output: the
same step that adds the output takes the run away, so that no later program can take it up and run the tool again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Final

import msgspec

from relight.errors import InDoubt
from relight.journal.effects.approvals import question_of
from relight.journal.fold import Fold
from relight.journal.formats.openai_responses import OPENAI_RESPONSES
from relight.sessions.shared import Write
from relight.values.call import Intent
from relight.values.status import StatusChange
from relight.values.step import Changes
from relight.values.usage import Usage

RUN: Final = "run_state"
RUN_CALLS: Final = "run_calls"
BRANCHES: Final = "branches"
PREVIEW: Final = 100
_RESTS: Final = StatusChange(status="completed", reason="its turn is over")

Item = dict[str, Any]


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a run that was interrupted for a decision."""

    call: str
    tool: str
    arguments: Any
    approved: bool | None
    """None: nobody has decided yet"""

    @property
    def question(self) -> str:
        """What a person is asked; `relight approve` and `relight deny` answer it."""
        return question_of(self.call, self.tool, self.arguments)


def add(fold: Fold, items: Sequence[Item]) -> Write:
    """Add items; a run that waited for one of the outputs is over with them."""
    answered = {call for item in items for call in OPENAI_RESPONSES.answers(item)}
    unset = [RUN, RUN_CALLS] if answered & set(fold.state.get(RUN_CALLS, ())) else []
    changes = Changes(messages=items, unset=unset)
    return Write(changes=changes, ends=_resting(_open_calls(fold, items), [*fold.messages[-1:], *items]))


def pop(fold: Fold) -> Write | None:
    """All items but the last; None where there is none."""
    if not fold.messages:
        return None
    return Write(kind="reset", changes=Changes(messages=fold.messages[:-1]), ends=_RESTS)


def count(fold: Fold, usage: Usage) -> Write:
    """What a run cost; nothing else changes."""
    return Write(kind="mark", changes=Changes(usage=usage), ends=_stay(fold))


def clear(fold: Fold) -> Write | None:
    """No item, no waiting run, no branch; None where that is so already."""
    gone = [key for key in (RUN, RUN_CALLS, BRANCHES) if key in fold.state]
    if not fold.messages and not gone:
        return None
    return Write(kind="reset", changes=Changes(messages=[], unset=gone), ends=_RESTS)


def keep(fold: Fold, items: Sequence[Item]) -> Write:
    """A branch begins: these items, no waiting run, no branches of its own."""
    unset = [key for key in (RUN, RUN_CALLS, BRANCHES) if key in fold.state]
    if list(items) == fold.messages:
        return Write(kind="state", changes=Changes(unset=unset), ends=_RESTS)
    return Write(kind="reset", changes=Changes(messages=items, unset=unset), ends=_RESTS)


def _open_calls(fold: Fold, items: Iterable[Item]) -> set[str]:
    opened = {slot.site.id for slot in fold.open_slots()}
    for item in items:
        opened.update(site.id for site in OPENAI_RESPONSES.calls(item))
        opened.difference_update(OPENAI_RESPONSES.answers(item))
    return opened


def _resting(opened: set[str], items: Sequence[Item]) -> StatusChange | None:
    """Did the model have the last word, and is no call open?"""
    return _RESTS if not opened and items and items[-1].get("role") == "assistant" else None


# -- a run that waits ---------------------------------------------------------------------------------------------


def save_run(fold: Fold, run: Mapping[str, Any], calls: Sequence[Waiting], *, begun: Set[str], name: str) -> Write:
    """A run as a checkpoint. What was approved is written down as begun before its tool can run: cut off after this,
    the call is in doubt, and is refused to whoever did not begin it. With an undecided call the session waits for a
    person.

    `begun`: calls that the same program has written down before.
    """
    undecided = [one for one in calls if one.approved is None]
    changes = Changes(
        state={RUN: dict(run), RUN_CALLS: [one.call for one in calls]},
        intents=[intent for one in calls if one.approved for intent in _intent(fold, one, begun, name)],
    )
    waits = StatusChange(status="waiting", reason="asks", question=undecided[0].question) if undecided else None
    return Write(kind="intent" if changes.intents else "state", changes=changes, ends=waits)


def _intent(fold: Fold, call: Waiting, begun: Set[str], name: str) -> list[Intent]:
    slot = next((one for one in fold.open_slots() if one.site.id == call.call), None)
    if slot is None:
        return []
    if slot.intent is None:
        return [Intent(id=call.call, name=call.tool, effect="once", asked_seq=slot.asked_seq)]
    if call.call in begun:
        return []
    raise InDoubt(name, call.call)


def forget_run(fold: Fold) -> Write | None:
    """No run waits any more; None where none did."""
    if RUN not in fold.state:
        return None
    ends = _resting(_open_calls(fold, ()), fold.messages) or _RESTS
    return Write(kind="state", changes=Changes(unset=[RUN, RUN_CALLS]), ends=ends)


def waiting_run(fold: Fold) -> dict[str, Any] | None:
    """The run that waits, as it was saved; None where there is none, or where one of its calls has a result by now."""
    run = fold.state.get(RUN)
    if not isinstance(run, dict):
        return None
    calls = set(fold.state.get(RUN_CALLS, ()))
    answered = {slot.site.id for slot in fold.slots() if not slot.is_open}
    return None if calls & answered else run


# -- turns and branches -------------------------------------------------------------------------------------------


def user_turns(items: Sequence[Item]) -> list[int]:
    """Where the user's messages stand: turn 1 is the first of them."""
    return [index for index, item in enumerate(items) if item.get("role") == "user"]


def text_of(content: Any) -> str:
    """A user message's words, as a preview shows them."""
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def has_text(content: Any, term: str) -> bool:
    """Is the term in a user message, whatever the case of its letters?"""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return any(term.lower() in text.lower() for text in texts if isinstance(text, str))


def branch(fold: Fold, name: str, session: str, *, at: int) -> Write:
    """Add a branch. A name is never used again, so that an old reference does not lead to another branch."""
    branches = {**fold.state.get(BRANCHES, {}), name: {"session": session, "created_at": at}}
    return Write(kind="state", changes=Changes(state={BRANCHES: branches}), ends=_stay(fold))


def unbranch(fold: Fold, name: str) -> Write | None:
    """Remove a branch; its name stays taken."""
    branches = fold.state.get(BRANCHES, {})
    if not branches.get(name):
        return None
    return Write(kind="state", changes=Changes(state={BRANCHES: {**branches, name: None}}), ends=_stay(fold))


def _stay(fold: Fold) -> StatusChange | None:
    return _resting(_open_calls(fold, ()), fold.messages)
