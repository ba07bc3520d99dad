"""A long task, killed at moments that nobody chose: it ends, with the same files, and nothing is done twice unsaid."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.processes.conftest import Open
from tests.support.fake_model import pairs, texts, unpaired
from tests.support.figures import Figure
from tests.support.program_harness import ProgramHarness, kill
from tests.support.scripted_agent.conversation import UNANSWERED

pytestmark = pytest.mark.crash
TURNS = 12
MOMENT_SECONDS = 0.8
"""a kill comes this long after the last one, at most"""


def command(number: int) -> str:
    """What leaves a trace each time it is run, and the same file however often."""
    return f"echo x >> ran-{number}; echo {number} > file-{number}; cat file-{number}"


def task(s_work: str) -> list[dict[str, Any]]:
    """Shell commands, edits, parallel calls; a model that repeats what it hears the outcome of is unknown."""
    turns: list[dict[str, Any]] = []
    for number in range(TURNS):
        calls: list[dict[str, Any]] = [{"shell": command(number)}]
        if number % 4 == 1:
            calls.append({"write": {"path": f"{s_work}/page-{number}", "content": f"page {number}\n"}})
        if number % 4 == 2:
            calls += [{"name": "Read", "input": {"file_path": f"{s_work}/file-{number - 1}"}}]
        turns.append({"text": f"turn {number}", "calls": calls, "again": "outcome unknown|interrupted"})
    return [*turns, {"text": "the end"}]


def files(s: ProgramHarness) -> dict[str, str]:
    return {path.name: path.read_text() for path in s.work.iterdir() if not path.name.startswith("ran-")}


def runs(s: ProgramHarness, number: int) -> int:
    return len((s.work / f"ran-{number}").read_text().splitlines())


def told_unknown(s: ProgramHarness, number: int) -> int:
    """How often the model heard that it is not known whether this was done."""
    return sum(
        call.value.get("command") == command(number) and result is not None and "outcome unknown" in str(result.value)
        for call, result in pairs(s.last())
    )


def was_asked(s: ProgramHarness, page: str) -> bool:
    """Does the model remember to have asked for this page? A kill may come when of a reply with two calls only the
    first was ever told, by its hook, and nothing was written down: the second is then as if it had not been said."""
    return any(str(call.value.get("file_path", "")).endswith(f"/{page}") for call, _ in pairs(s.last()))


def kill_at_random(s: ProgramHarness, chance: random.Random, kills: int, *, both: bool) -> int:
    """Kill the agent (or its supervisor too) so often, resuming where relight does not by itself. Kills that hit."""
    child, hit = s.begin(), 0
    s.the_agent()
    for _ in range(kills * 3):
        try:
            child.wait(timeout=chance.uniform(0.05, MOMENT_SECONDS))
        except subprocess.TimeoutExpired:
            if hit < kills:
                hit += _strike(s, child, both=both and chance.random() < 0.5)
            continue
        if s.known().status == "completed":
            break
        child = s.start("resume", "job", "--yes")
    while s.known().status != "completed":
        child.wait(timeout=60)
        if s.known().status != "completed":
            child = s.start("resume", "job", "--yes")
    child.wait(timeout=60)
    return hit


def _strike(s: ProgramHarness, child: subprocess.Popen[str], *, both: bool) -> int:
    agents = s.agents()
    if both:
        child.kill()
    for pid in agents:
        kill(pid)
    return bool(agents)


@pytest.mark.guarantee("G12")
@pytest.mark.parametrize("both", [False, True], ids=["agent", "supervisor too"])
def test_killed_at_random_moments_the_task_ends_as_if_undisturbed(
    harness: Open, sample: Callable[..., int], figure: Figure, both: bool
) -> None:
    kills = sample(3, proof=60, teeth=4)
    chance = random.Random()
    seed = chance.randrange(1 << 32)
    chance.seed(seed)
    hit = repeated = tasks = 0
    while hit < kills:
        s = harness([], SCRIPTED_AGENT_FLUSH_MS="100")
        s.play(task(str(s.work)))
        hit += kill_at_random(s, chance, kills - hit, both=both)
        repeated += assert_undisturbed(s, seed)
        tasks += 1
        s.close()
    whom = "agent or its supervisor too" if both else "agent"
    figure(
        "G12", f"{tasks} tasks of a coding agent, {hit} kills -9 of the {whom}: all end, with the files of a calm run"
    )
    figure(
        "G7", f"{hit} kills of a coding agent: every call one result, {repeated} commands done again, each after a word"
    )


def assert_undisturbed(s: ProgramHarness, seed: int) -> int:
    """The task ended as it would have alone. How many commands were done again."""
    assert unpaired(s.last()) == [], f"seed {seed}\n{s.evidence()}"
    expected = {f"file-{number}": f"{number}\n" for number in range(TURNS)}
    expected |= {
        f"page-{number}": f"page {number}\n" for number in range(1, TURNS, 4) if was_asked(s, f"page-{number}")
    }
    assert UNANSWERED not in texts(s.last(), "result"), f"the agent had to repair itself (seed {seed})\n{s.evidence()}"
    assert files(s) == expected, f"seed {seed}\n{s.evidence()}"
    unsaid = [number for number in range(TURNS) if runs(s, number) > 1 + told_unknown(s, number)]
    assert not unsaid, f"done again without the model having been told (seed {seed}): {unsaid}\n{s.evidence()}"
    assert not s.marked(), seed
    return sum(runs(s, number) - 1 for number in range(TURNS))
