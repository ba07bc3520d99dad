"""What a hook tells and what the transcript tells of one call are one call, whichever comes first into the journal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from relight.journal.conversation.loop_detector import repeated
from relight.journal.effects.open_effects import open_effects
from relight.journal.fold import _TRIAL, Fold
from relight.values.call import Intent, Outcome
from relight.values.step import Changes


def asked(call: str, command: str = "ls") -> dict[str, Any]:
    block = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command}}
    message = {"id": f"m-{call}", "role": "assistant", "content": [block]}
    return {"type": "assistant", "uuid": f"a-{call}", "parentUuid": None, "message": message}


def answered(call: str, text: str = "ok") -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call, "content": text}
    message = {"role": "user", "content": [block]}
    return {"type": "user", "uuid": f"r-{call}", "parentUuid": f"a-{call}", "message": message}


def begins(call: str) -> Changes:
    return Changes(intents=[Intent(id=call, name="Bash", effect="once", hooked=True, arguments={"command": "ls"})])


def ended(call: str) -> Changes:
    return Changes(outcomes=[Outcome(id=call, content="ok")])


def lines(*given: dict[str, Any]) -> Changes:
    return Changes(messages=list(given))


def folded(*steps: Changes) -> Fold:
    fold = Fold("anthropic")
    for number, changes in enumerate(steps, start=1):
        fold.apply(msgspec.structs.replace(_TRIAL, session="s", seq=number, at_us=number), changes)
    return fold


ORDERS = {
    "line first": [lines(asked("t")), begins("t"), ended("t"), lines(answered("t"))],
    "hook first": [begins("t"), lines(asked("t")), ended("t"), lines(answered("t"))],
    "both hooks first": [begins("t"), ended("t"), lines(asked("t")), lines(answered("t"))],
    "lines first": [lines(asked("t")), begins("t"), lines(answered("t")), ended("t")],
    "one look": [begins("t"), ended("t"), lines(asked("t"), answered("t"))],
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
def test_a_call_is_one_call_whatever_came_first(order: list[Changes]) -> None:
    fold = folded(*order)
    [call] = fold.calls(doubtful=True)
    assert (call.name, call.arguments, call.effect) == ("Bash", {"command": "ls"}, "once")
    assert call.success and not call.in_doubt
    assert fold.messages == [asked("t"), answered("t")], "the conversation is the agent's own, line by line"
    assert not fold.open_slots() and not fold.hooked and not open_effects(fold, 9, 9)


@pytest.mark.parametrize("order", [[lines(asked("t")), begins("t")], [begins("t"), lines(asked("t"))]])
def test_a_call_that_began_and_did_not_end_is_in_doubt(order: list[Changes]) -> None:
    fold = folded(*order)
    [call] = fold.calls(doubtful=True)
    assert call.in_doubt
    assert [effect.id for effect in open_effects(fold, 9, 9)] == ["t"]


def test_a_call_that_only_a_hook_told_of_is_open_until_somebody_tells_more() -> None:
    fold = folded(begins("t"))
    assert fold.calls(doubtful=True) == []
    assert [effect.id for effect in open_effects(fold, 9, 9)] == ["t"]
    assert fold.hooked["t"].intent.arguments == {"command": "ls"}, "enough to write it into the transcript"


def test_parallel_calls_do_not_mix() -> None:
    fold = folded(begins("a"), lines(asked("a"), asked("b")), begins("b"), ended("b"))
    calls = {call.id: call for call in fold.calls(doubtful=True)}
    assert calls["a"].in_doubt and not calls["b"].in_doubt and calls["b"].success


def test_a_reset_carries_what_is_open() -> None:
    fold = folded(lines(asked("t")), begins("t"))
    carried = fold.carried([asked("t")])
    fold.apply(
        msgspec.structs.replace(_TRIAL, session="s", seq=9, kind="reset"),
        Changes(messages=[asked("t")], carried=carried),
    )
    [call] = fold.calls(doubtful=True)
    assert call.in_doubt


@pytest.mark.parametrize("hooks", [True, False])
def test_the_same_call_with_the_same_result_is_a_loop(hooks: bool) -> None:
    steps: list[Changes] = []
    for number in range(6):
        call = f"t{number}"
        steps += [lines(asked(call)), *([begins(call), ended(call)] if hooks else []), lines(answered(call))]
    fold = folded(*steps)
    assert "Bash" in (repeated(fold, since=0, repeats=6) or "")
    assert repeated(fold, since=0, repeats=7) is None
    assert repeated(fold, since=0, repeats=0) is None
    other = folded(*steps[:-1], lines(answered("t5", "another"))) if not hooks else None
    assert other is None or repeated(other, since=0, repeats=6) is None


def test_a_conversation_that_comes_all_at_once_is_known_for_what_it_is() -> None:
    fold = Fold("anthropic")
    assert not fold.format.native
    assert fold.format_with([asked("t")]).native
