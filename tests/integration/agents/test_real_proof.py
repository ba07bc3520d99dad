"""The proof on real agents: killed again and again in a task of twelve turns, it ends as if nothing had happened."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_harness import KINDS, OTHERS, SECONDS, TASK, UNKNOWN, AgentHarness, harness
from tests.support.figures import Figure
from tests.support.shell import eventually

pytestmark = [pytest.mark.agents, pytest.mark.crash]
AGAIN = "outcome unknown|^interrupted"
LONGEST_SECONDS = 2.0
"""a random moment lies within so much time after an attempt has asked the model, or was started"""
ENDS_SECONDS = 90.0


def task(work: Path, ledger: Path) -> list[Any]:
    """Eleven turns of work and a last word: lines appended, files written and edited, two calls at once.

    Each command enters its number in a ledger outside of the workspace: how often it really ran. The model is a careful
    one: told that an outcome is unknown it calls again, and the command looks before it acts.
    """

    def line(number: int, name: str = "log.txt") -> dict[str, Any]:
        once = f"grep -qsx {number} {name} || echo {number} >> {name}"
        return {"shell": f"echo {number} >> {ledger}; sleep 0.1; {once}; sleep 0.1"}

    def file(name: str, content: str) -> dict[str, Any]:
        return {"write": {"path": str(work / name), "content": content}}

    turns: list[list[dict[str, Any]]] = [
        [line(1)],
        [file("a.txt", "alpha\nbeta\n")],
        [line(2), line(3, "also.txt")],
        [{"edit": {"path": str(work / "a.txt"), "old": "beta", "new": "gamma"}}],
        [line(4)],
        [file("b.txt", "first\nsecond\n")],
        [line(5), file("c.txt", "see\n")],
        [line(6)],
        [{"edit": {"path": str(work / "b.txt"), "old": "second", "new": "last"}}],
        [line(7), line(8, "also.txt")],
        [line(9)],
    ]
    said = [
        {"text": f"turn {location}", "calls": calls, "again": AGAIN, "delay": 0.1}
        for location, calls in enumerate(turns, start=1)
    ]
    return [*said, {"text": "turn 12: all done", "delay": 0.1}]


def contents(work: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(work.iterdir())}


class Torment:
    """Kills one session at random moments and has relight resume it."""

    def __init__(self, s: AgentHarness, chance: random.Random) -> None:
        self.s, self.chance, self.kills = s, chance, Counter[str]()
        self.child: subprocess.Popen[str] | None = None

    def once(self, start: list[str]) -> bool:
        """Start it, wait for a random moment, kill. False where the task ended before."""
        before = len(self.s.model.requests())
        if self.child is None or self.child.poll() is not None:
            self.child = self.s.start(*start)
        child, anywhere = self.child, self.chance.random() < 0.2
        if not anywhere:  # else perhaps before it has asked for anything
            eventually(
                lambda: child.poll() is not None or len(self.s.model.requests()) > before,
                seconds=SECONDS,
                what="a request of this attempt",
            )
        until = time.monotonic() + self.chance.uniform(0, LONGEST_SECONDS)
        eventually(lambda: time.monotonic() > until or child.poll() is not None, seconds=SECONDS)
        if child.poll() is not None:
            return False
        victim = self.chance.choice(["agent", "supervisor", "both"] if self.s.agents() else ["supervisor"])
        self.s.strike(victim, child)
        self.kills[victim] += 1
        return True


@pytest.mark.timeout(1200)
@pytest.mark.guarantee("G10")
@pytest.mark.parametrize("kind", (*KINDS, *OTHERS))
def test_killed_at_random_moments_it_ends_as_if_undisturbed(
    kind: str, tmp_path: Path, sample: Callable[..., int], figure: Figure
) -> None:
    wanted, seed = sample(4 if kind in KINDS else 2, proof=50), random.randrange(2**32)
    chance = random.Random(seed)
    plain = tmp_path / "plain"
    with harness(kind, plain, task(plain / "work", plain / "ledger")) as s:
        s.run()
        undisturbed = contents(s.work)
    assert undisturbed["log.txt"].split() == ["1", "2", "4", "5", "6", "7", "9"]
    done, rounds = Counter[str](), 0
    while done.total() < wanted:
        base, rounds = tmp_path / f"round{rounds}", rounds + 1
        with harness(kind, base, task(base / "work", base / "ledger")) as s:
            done += one_task(s, chance, wanted - done.total(), undisturbed, seed)
    reported = ", ".join(f"{number} {victim}" for victim, number in sorted(done.items()))
    figure(
        "G7", f"{kind}: {done.total()} SIGKILLs ({reported}) in {rounds} tasks of 12 turns, 0 calls without one result"
    )
    figure("G10", f"{kind}: {done.total()} SIGKILLs, files as undisturbed, 0 commands run twice untold")


def one_task(s: AgentHarness, chance: random.Random, most: int, undisturbed: dict[str, str], seed: int) -> Counter[str]:
    """One task, killed up to so many times and then left to end."""
    torment, start = Torment(s, chance), s.words()
    while torment.kills.total() < most and torment.once(start):
        start = ["resume", "job", "--yes"] if s.find() is not None else start
    end = time.monotonic() + ENDS_SECONDS
    while s.find() is None or s.info().status != "completed":
        assert time.monotonic() < end, f"seed {seed}: it does not end: {s.info().reason}\n{s.said}"
        if torment.child is None or torment.child.poll() is not None:
            torment.child = s.start(*(["resume", "job", "--yes"] if s.find() is not None else s.words()))
        torment.child.wait(timeout=ENDS_SECONDS)
    assert contents(s.work) == undisturbed, f"seed {seed}"
    s.remembers(TASK, "turn 1", "turn 11")
    runs = Counter((s.base / "ledger").read_text().split())
    doubted = doubted_entries(s)
    untold = {entry: number for entry, number in runs.items() if number > 1 + doubted[entry]}
    assert untold == {}, f"seed {seed}: {runs} with doubts {doubted}"
    assert not s.marked(), "an orphan was left"
    s.do("verify", "job")
    return torment.kills


def doubted_entries(s: AgentHarness) -> Counter[str]:
    """Of each entry in the ledger: how many of its calls the model was told to be unknown."""
    found: Counter[str] = Counter()
    for asked, result in s.results():
        if asked.startswith("echo ") and UNKNOWN in result:
            found[asked.split()[1]] += 1
    return found
