"""G10: a `once` tool is never silently run twice. G11: finished steps are not run or paid again.

An agent of two turns with two parallel calls each is killed at every fault point, at every time it is passed, once,
twice in a row and inside the resume, and made to raise there. What it does and what it asks is counted outside of it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.library.facade import Relight
from relight.ports import faults
from relight.testing.conversation import lint
from relight.values.call import OUTCOME_UNKNOWN
from tests.support.child_processes import ForkServer, lines_of
from tests.support.figures import Figure
from tests.support.programs.agent import CALLS, TURNS

pytestmark = pytest.mark.crash
PLACES = {
    "commit": [name for name in faults.POINTS if name.startswith("commit.")],
    "tool": [name for name in faults.POINTS if name.startswith("tool.")],
    "opening": [name for name in faults.POINTS if name.startswith(("session.", "resume."))],
}
WAYS = {"kill": 3, "kill, kill": 7, "raise": 7}
"""and every how manieth pass of a point is tried"""
MAX_PASSES = 60
IDS = sorted(f"t{turn}c{call}" for turn in range(TURNS) for call in range(CALLS))


class Agent:
    """One agent with its files, and what was seen of it."""

    def __init__(self, fork_server: ForkServer, directory: Path, store: str, name: str) -> None:
        self.fork_server, self.store, self.name = fork_server, store, name
        self.effects, self.asked = directory / f"{name}.effects", directory / f"{name}.asked"
        self.deaths = 0
        self.doubted: set[str] = set()

    def live(self, fault: str) -> bool:
        """One life. Did it come to its end?"""
        options = {"store": self.store, "session": self.name, "effects": self.effects, "asked": self.asked}
        child = self.fork_server.run("agent", fault, **options)
        ended = os.WIFEXITED(child.wait()) and os.WEXITSTATUS(child.wait()) == 0
        if not ended:
            assert child.was_killed or "InjectedFault" in child.said, child.said
            self.deaths += 1
        return ended

    def look(self, rl: Relight) -> None:
        """After a death: nothing ran twice, and every call in doubt is shown."""
        lines = Counter(lines_of(self.effects))
        assert not lines or max(lines.values()) == 1, f"ran twice: {lines}"
        if rl.sessions.find(self.name) is None:
            return
        plan = rl.runs.plan(self.name)
        assert plan.ok, plan
        begun: set[str] = set()
        ended: set[str] = set()
        for event in rl.history.events(self.name):
            begun.update(intent["id"] for intent in event.intents)
            ended.update(outcome["id"] for outcome in event.outcomes)
        shown = {call.id for call in plan.in_doubt}
        if rl.sessions.get(self.name).status != "completed":
            assert shown == begun - ended
            assert rl.sessions.get(self.name).in_doubt == len(shown)
        recorded = {call.id for call in rl.history.load(self.name).calls if call.result_seq is not None}
        assert set(lines) <= shown | recorded, "an effect happened that nobody can see"
        self.doubted |= shown

    def judge(self, rl: Relight) -> int:
        """At its end: how many calls were reported as unknown."""
        lines = Counter(lines_of(self.effects))
        assert not lines or max(lines.values()) == 1, f"ran twice: {lines}"
        loaded = rl.history.load(self.name)
        assert lint(loaded.messages) == []
        results = {m["tool_call_id"]: m["content"] for m in loaded.messages if m["role"] == "tool"}
        assert sorted(results) == IDS
        assert sum(m["role"] == "tool" for m in loaded.messages) == len(IDS)
        unknown = {call for call, text in results.items() if text == OUTCOME_UNKNOWN}
        assert unknown <= self.doubted, "unknown, and nobody was shown a doubt"
        for call in IDS:
            if call not in unknown:
                assert (results[call], lines[call]) == (f"sent {call}", 1)
        asked = len(lines_of(self.asked))
        assert asked <= TURNS + 1 + self.deaths, "finished replies were asked for again"
        assert max(Counter(lines_of(self.asked)).values()) <= 1 + self.deaths
        assert rl.sessions.get(self.name).usage.input_tokens == 10 * (TURNS + 1), "usage is counted once a reply"
        assert rl.sessions.get(self.name).status == "completed"
        assert rl.history.verify(self.name).ok
        return len(unknown)


@pytest.mark.long
@pytest.mark.guarantee("G10")
@pytest.mark.guarantee("G11")
@pytest.mark.parametrize("where", PLACES)
def test_an_effect_never_happens_twice_wherever_its_agent_dies(
    fork_server: ForkServer, memory_path: Path, where: str, figure: Figure, sample: Any
) -> None:
    deaths = unknown = again = 0
    with relight.open(memory_path / "relight.db") as rl:
        for point in PLACES[where]:
            for way, step in WAYS.items():
                for agent in _die_everywhere(fork_server, rl, memory_path, point, way, sample(step, proof=1, teeth=4)):
                    unknown += agent.judge(rl)
                    deaths += agent.deaths
                    again += len(lines_of(agent.asked)) - (TURNS + 1)
    points = len(PLACES[where])
    figure("G10", f"{deaths} deaths at {points} {where} points, 0 effects twice, {unknown} outcomes told as unknown")
    figure("G11", f"{deaths} deaths at {points} {where} points, {again} replies asked for again, at most 1 a death")


def _die_everywhere(
    fork_server: ForkServer, rl: Relight, directory: Path, point: str, way: str, step: int
) -> Iterator[Agent]:
    """Agents that died when the point was passed for the 1st, 2nd, ... time, until one no longer passes it."""
    action, *more = way.split(", ")
    for nth in range(1, MAX_PASSES, step):
        agent = Agent(fork_server, directory, rl.store.url, f"{point}.{way.replace(', ', '-')}.{nth}")
        ended = agent.live(f"{point}:{nth}:{action}")
        agent.look(rl)
        if more and not ended:
            ended = agent.live(f"{point}:{1 + nth // 2}:{more[0]}")
            agent.look(rl)
        if not ended:
            assert agent.live(""), "an undisturbed life must come to its end"
        yield agent
        if not agent.deaths:
            return
    raise AssertionError(f"{point} is passed more than {MAX_PASSES} times")
