"""G13: tools that changed are noticed: refused with a diff where a pending call depends on them, noted otherwise."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import relight
import relight.sessions.calls.effects
import relight.sessions.calls.tools
from relight.errors import ToolsChanged
from relight.sessions.session import writer_of
from relight.values.call import EFFECTS
from tests.support.figures import Figure
from tests.support.simulation import Simulation


class Died(BaseException):
    """The process ends inside the tool."""


def tool(effect: Any, *, dies: bool = False, more: bool = False) -> Any:
    def t(a: int = 1) -> str:
        if dies:
            raise Died
        return "done"

    def t_more(a: int = 1, b: int = 2) -> str:
        return t(a)

    options: Any = {"probe": lambda a=1: "seen"} if effect == "probe" else {}
    return relight.tool(effect=effect, name="t", **options)(t_more if more else t)


def leave(world: Simulation, name: str, effect: Any, how: str) -> None:
    """A session whose call of `t` was not started, died at work, or is finished."""
    s = world.start().session(name)
    s.append({"role": "user", "content": "go"})
    function = {"name": "t", "arguments": "{}"}
    s.append({"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": function}]})
    if how == "unstarted":
        relight.sessions.calls.effects.note_tools(writer_of(s), relight.sessions.calls.tools.toolbox([tool(effect)]))
    elif how == "in doubt":
        with pytest.raises(Died):
            s.run_tool(s.pending_calls()[0], [tool(effect, dies=True)])
    else:
        s.run_tool(s.pending_calls()[0], [tool(effect)])
    world.crash()


def expected(how: str, before: str, after: str) -> str:
    if how == "finished" or (how == "unstarted" and after != "gone") or before == after:
        return "noted" if before != after else "same"
    return "refused" if after == "gone" or how == "in doubt" else "noted"


@pytest.mark.guarantee("G13")
def test_a_changed_tool_is_refused_under_a_pending_call_and_noted_otherwise(world: Simulation, figure: Figure) -> None:
    counts = {"refused": 0, "noted": 0, "same": 0}
    cases = product(("unstarted", "in doubt", "finished"), EFFECTS, (*EFFECTS, "gone"))
    for number, (how, before, after) in enumerate(cases):
        name = f"s{number}"
        leave(world, name, before, how)
        s = world.start().session(name)
        seq = s._recorder.head.seq
        box = [] if after == "gone" else [tool(after)]
        try:
            s.run(lambda messages: {"role": "assistant", "content": "end"}, tools=box)
            notes = [event.note for event in world.start().history.events(name) if "tools_changed" in event.note]
            saw = "noted" if notes else "same"
        except ToolsChanged as error:
            assert error.diff and "t" in error.diff[0]
            assert s._recorder.head.seq == seq, "refused, and something was written"
            saw = "refused"
        assert saw == expected(how, before, after), f"{how}: {before} -> {after}"
        counts[saw] += 1
    figure("G13", f"{sum(counts.values())} changes of tools: {counts['refused']} refused with a diff, 0 unnoticed")


def test_a_parameter_that_comes_or_goes_is_noted(world: Simulation) -> None:
    leave(world, "a", "once", "finished")
    with world.start().session("a") as s:
        s.run(lambda messages: {"role": "assistant", "content": "end"}, tools=[tool("once", more=True)])
    notes = [
        event.note["tools_changed"] for event in world.start().history.events("a") if "tools_changed" in event.note
    ]
    assert notes == [["~ t once(a) -> once(a,b)"]]
