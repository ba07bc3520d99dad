"""Writes of the session methods of the OpenAI Agents SDK, computed from the present state. Pure.

Items are the session's messages, verbatim. Its state has the run that waits for a decision, with the ids of its calls,
and the branches. A waiting run is over as soon as one of those calls has an output: the step that adds the output also
removes the run, so that no later program can load it and run the tool again.
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
_IDLE: Final = StatusChange(status="completed", reason="its turn is over")

Item = dict[str, Any]


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a run that was interrupted for a decision."""

    call: str
    tool: str
    arguments: Any
    approved: bool | None
    """None: not decided yet"""

    @property
    def question(self) -> str:
        """The question for a person; `relight approve` and `relight deny` answer it."""
        return question_of(self.call, self.tool, self.arguments)


def add(fold: Fold, items: Sequence[Item]) -> Write:
    """Add items; a run that waited for one of the outputs is removed."""
    answered = {call for item in items for call in OPENAI_RESPONSES.answers(item)}
    unset = [RUN, RUN_CALLS] if answered & set(fold.state.get(RUN_CALLS, ())) else []
    changes = Changes(messages=items, unset=unset)
    return Write(changes=changes, ends=_idle_status(_open_calls(fold, items), [*fold.messages[-1:], *items]))


def pop(fold: Fold) -> Write | None:
    """Remove the last item; None if there is none."""
    if not fold.messages:
        return None
    return Write(kind="reset", changes=Changes(messages=fold.messages[:-1]), ends=_IDLE)


def count(fold: Fold, usage: Usage) -> Write:
    """Record the usage of a run."""
    return Write(kind="mark", changes=Changes(usage=usage), ends=_present_status(fold))


def clear(fold: Fold) -> Write | None:
    """Remove all items, the waiting run and the branches; None if there are none."""
    gone = [key for key in (RUN, RUN_CALLS, BRANCHES) if key in fold.state]
    if not fold.messages and not gone:
        return None
    return Write(kind="reset", changes=Changes(messages=[], unset=gone), ends=_IDLE)


def keep(fold: Fold, items: Sequence[Item]) -> Write:
    """Begin a branch: exactly these items, no waiting run, no branches."""
    unset = [key for key in (RUN, RUN_CALLS, BRANCHES) if key in fold.state]
    if list(items) == fold.messages:
        return Write(kind="state", changes=Changes(unset=unset), ends=_IDLE)
    return Write(kind="reset", changes=Changes(messages=items, unset=unset), ends=_IDLE)


def _open_calls(fold: Fold, items: Iterable[Item]) -> set[str]:
    opened = {slot.site.id for slot in fold.open_slots()}
    for item in items:
        opened.update(site.id for site in OPENAI_RESPONSES.calls(item))
        opened.difference_update(OPENAI_RESPONSES.answers(item))
    return opened


def _idle_status(opened: set[str], items: Sequence[Item]) -> StatusChange | None:
    """The status change if the last message is the model's and no call is open; else None."""
    return _IDLE if not opened and items and items[-1].get("role") == "assistant" else None


# -- a run that waits ---------------------------------------------------------------------------------------------


def save_run(fold: Fold, run: Mapping[str, Any], calls: Sequence[Waiting], *, begun: Set[str], name: str) -> Write:
    """Save a run as a checkpoint. With an undecided call the session waits for a person.

    Approved calls get an intent before their tools can run: after a crash they are in doubt, and a program that did not
    begin them is refused (InDoubt). `begun`: calls whose intent this program has recorded before.
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
    """Remove the waiting run; None if there is none."""
    if RUN not in fold.state:
        return None
    ends = _idle_status(_open_calls(fold, ()), fold.messages) or _IDLE
    return Write(kind="state", changes=Changes(unset=[RUN, RUN_CALLS]), ends=ends)


def waiting_run(fold: Fold) -> dict[str, Any] | None:
    """The waiting run as it was saved; None if there is none, or if one of its calls has a result."""
    run = fold.state.get(RUN)
    if not isinstance(run, dict):
        return None
    calls = set(fold.state.get(RUN_CALLS, ()))
    answered = {slot.site.id for slot in fold.slots() if not slot.is_open}
    return None if calls & answered else run


# -- turns and branches -------------------------------------------------------------------------------------------


def user_turns(items: Sequence[Item]) -> list[int]:
    """The indexes of the user's messages; turn 1 is the first."""
    return [index for index, item in enumerate(items) if item.get("role") == "user"]


def text_of(content: Any) -> str:
    """The text of a user message, for a preview."""
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def has_text(content: Any, term: str) -> bool:
    """Whether a user message contains a term; case is ignored."""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return any(term.lower() in text.lower() for text in texts if isinstance(text, str))


def branch(fold: Fold, name: str, session: str, *, at: int) -> Write:
    """Register a branch. A name is never used again, so that an old reference cannot mean another branch."""
    branches = {**fold.state.get(BRANCHES, {}), name: {"session": session, "created_at": at}}
    return Write(kind="state", changes=Changes(state={BRANCHES: branches}), ends=_present_status(fold))


def unbranch(fold: Fold, name: str) -> Write | None:
    """Mark a branch as deleted; its name stays used."""
    branches = fold.state.get(BRANCHES, {})
    if not branches.get(name):
        return None
    return Write(kind="state", changes=Changes(state={BRANCHES: {**branches, name: None}}), ends=_present_status(fold))


def _present_status(fold: Fold) -> StatusChange | None:
    return _idle_status(_open_calls(fold, ()), fold.messages)
