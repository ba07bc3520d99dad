"""A session handed from one real agent to another and back: the model of each leg has the whole history, each leg does
real work, and the provider accepts every request. Offline, as in test_real_adapters.py."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import relight
from tests.support import real_agents as real
from tests.support.agent_harness import AgentHarness, append, lines
from tests.support.figures import Figure
from tests.support.load import allowed
from tests.support.processes import environment, executable
from tests.support.shell import eventually

pytestmark = pytest.mark.agents
FAILOVER_SECONDS = 2.0
AGAIN = "outcome unknown|^interrupted"


class BothHarness(AgentHarness):
    """All agents in one home, with one model."""

    def __init__(self, kind: str, base: Path, script: Any) -> None:
        super().__init__(kind, base, script)
        for other, program in PROGRAMS.items():
            if other != kind:
                (base / "bin" / other).symlink_to(program())

    def agents(self) -> list[int]:
        programs = {str(real.node() if name in ("pi", "gemini") else program()) for name, program in PROGRAMS.items()}
        return [pid for pid in self.processes() if executable(pid) in programs]

    def owners(self) -> set[str]:
        """The claims whose agents are alive."""
        return {environment(pid).get("RELIGHT_EPOCH", "") for pid in self.agents()}

    def environment(self, home: Path | None = None, cwd: Path | None = None) -> dict[str, str]:
        home, cwd = home or self.home, cwd or self.work
        codex = real.Codex(home=home, cwd=cwd, url=self.model.url)
        codex.configure()
        claude = real.Claude(home=home, cwd=cwd, url=self.model.url, extra=self.variables)
        pi = real.Pi(home=home, cwd=cwd, url=self.model.url)
        pi.configure()
        kind, self.kind = self.kind, "claude"
        given = super().environment(home, cwd)
        self.kind = kind
        opencode = real.Opencode(home=home, cwd=cwd, url=self.model.url)
        gemini = real.Gemini(home=home, cwd=cwd, url=self.model.url, extra={"GEMINI_MODEL": "gemini-2.5-pro"})
        gemini.configure()
        more = {**pi.environment(), **opencode.environment(), **gemini.environment()}
        others = {**codex.environment(), **more}
        return {**others, **claude.environment(), **given, "CODEX_HOME": str(home / ".codex")}


@contextmanager
def both(kind: str, base: Path, script: Any) -> Iterator[BothHarness]:
    made = BothHarness(kind, base, script)
    try:
        yield made
    finally:
        made.close()


PROGRAMS = {
    "claude": real.claude_binary,
    "codex": real.codex_binary,
    "opencode": real.opencode_binary,
    "pi": real.pi_script,
    "gemini": real.gemini_script,
}
AGENTS = ("claude", "codex", "opencode", "pi")
"""those whose every kill is tried; Gemini CLI is in the relays"""
TOKEN = "sk-ant-oat01-fake-token-of-the-relight-tests-000000000000"
CLAUDE = "claude -p --dangerously-skip-permissions --output-format stream-json --verbose"


@pytest.mark.parametrize("kind", ["claude", "codex"])
def test_a_relay_through_both_agents_keeps_everything(kind: str, tmp_path: Path) -> None:
    other = "codex" if kind == "claude" else CLAUDE
    picture = {"text": "looks", "calls": [{"shell": "echo a"}, {"shell": "echo b; exit 3"}]}
    script = [picture, append("one"), {"text": "end one"}]
    script += [append("two"), {"text": "end two"}, append("three"), {"text": "end three"}]
    with both(kind, tmp_path, {"mode": "requests", "slots": script}) as job:
        job.run()
        plan = job.json("can-resume", "job", "--agent", other)
        assert plan["hand_over"]["faults"] == []
        assert plan["agent"]["rung"] == "native"
        job.do("resume", "job", "now the second", "--agent", other)
        assert job.info().agent == ("codex" if kind == "claude" else "claude")
        job.remembers("end one", "now the second")
        job.do("resume", "job", "now the third", "--agent", kind)
        assert job.info().agent == kind
        assert job.info().status == "completed"
        job.remembers("end one", "now the second", "end two", "now the third")
        asked = [command for command, _ in job.results()]
        assert [any(word in command for command in asked) for word in ("echo b", "one", "two", "three")] == [True] * 4
        assert lines(job.work) == ["one", "two", "three"]
        with relight.open(job.store, create=False) as rl:
            notes = [one.note["handed_over"] for one in rl.history.events("job") if "handed_over" in one.note]
        assert [note["target"] for note in notes] == ["codex" if kind == "claude" else "claude", kind]
        assert all(note["losses"] for note in notes)
        fork = job.json("resume", f"job@{job.after_turn(1)}", "other way", "--agent", other, "--name", "aside")
        assert fork["rung"] == "native"
        job.remembers("other way", "do the work")


def test_a_relay_through_every_agent_and_back_does_the_work_of_each_leg(tmp_path: Path) -> None:
    way = ["opencode", "gemini", "pi", "codex", "claude"]
    slots = [append("leg0"), {"text": "end 0"}]
    for number in range(1, len(way) + 1):
        slots += [append(f"leg{number}"), {"text": f"end {number}"}]
    with both("claude", tmp_path, {"mode": "requests", "slots": slots}) as job:
        job.run()
        for number, agent in enumerate(way, 1):
            job.do("resume", "job", f"prompt {number}", "--agent", agent)
            assert (job.info().agent, job.info().status) == (agent, "completed")
            job.remembers("do the work", *(f"end {before}" for before in range(number)), f"prompt {number}")
        assert lines(job.work) == [f"leg{number}" for number in range(len(way) + 1)]
        with relight.open(job.store, create=False) as rl:
            rungs = [one.note["started"]["rung"] for one in rl.history.events("job") if one.note.get("started")]
        assert rungs == ["fresh"] + ["native"] * len(way)


def test_a_call_cut_off_by_a_kill_is_closed_for_the_other_agent(tmp_path: Path) -> None:
    slow = append("begun", "sleep 60")
    with both("claude", tmp_path, {"mode": "requests", "slots": [slow, {"text": "went on"}]}) as job:
        child = job.begin()
        eventually(lambda: lines(job.work) == ["begun"] and job.has_written("sleep 60"), seconds=60, what="the call")
        job.strike("both", child)
        job.do("resume", "job", "--agent", "codex")
        job.remembers("do the work")
        assert "outcome unknown" in job.reported("begun")
        assert "log.txt" in job.reported("begun")
        assert job.info().status == "completed"
        assert job.marked() == []


@pytest.mark.guarantee("G12")
def test_a_limit_of_one_agent_hands_the_task_to_the_other_within_two_seconds(tmp_path: Path, figure: Figure) -> None:
    reset = str(int(time.time()) + 3600)
    unified = "anthropic-ratelimit-unified-"
    headers = {f"{unified}status": "rejected", f"{unified}reset": reset, f"{unified}representative-claim": "five_hour"}
    slots = [append("one"), {"status": 429, "headers": headers}, append("two"), {"text": "all done"}]
    with both("claude", tmp_path, {"mode": "requests", "slots": slots}) as job:
        job.variables["CLAUDE_CODE_OAUTH_TOKEN"] = TOKEN
        job.run("--fallback", "codex")
        assert (job.info().status, job.info().agent) == ("completed", "codex")
        job.remembers("do the work", "writes one")
        assert lines(job.work) == ["one", "two"]
        with relight.open(job.store, create=False) as rl:
            steps = list(rl.history.events("job"))
        [fell] = [one for one in steps if one.status and "it continues in codex" in (one.status["reason"] or "")]
        [began] = [one for one in steps if one.note.get("started") and one.seq > fell.seq]
        seconds = began.at.timestamp() - job.model.requests()[1].at
        assert seconds < allowed(FAILOVER_SECONDS)
        figure("G12", f"the other agent started {seconds:.1f} s after the provider's limit was met")


@pytest.mark.timeout(3600)
@pytest.mark.guarantee("G8")
def test_killed_again_and_again_around_hand_overs_it_ends_as_if_undisturbed(
    tmp_path: Path, sample: Callable[..., int], figure: Figure
) -> None:
    wanted, chance, seed = sample(3, proof=40), random.Random(), random.randrange(2**32)
    chance.seed(seed)
    done, storms = Counter[str](), 0
    while done.total() < wanted:
        storms += 1  # not the kills so far: a fast machine has done all ten before the first is due
        with both("claude", tmp_path / str(storms), steps_of(tmp_path / f"ledger{storms}")) as job:
            done += one_storm(job, chance, wanted - done.total(), tmp_path / f"ledger{storms}", f"seed {seed}")
    killed = ", ".join(f"{number} {victim}" for victim, number in sorted(done.items()))
    figure("G8", f"{done.total()} SIGKILLs ({killed}) around hand-overs of {len(AGENTS)} agents, 0 times two owners")


def steps_of(ledger: Path) -> list[Any]:
    """Ten careful commands; each looks before it acts, and enters its number in a ledger."""
    shells = [f"echo {n} >> {ledger}; grep -qsx {n} log.txt || echo {n} >> log.txt; sleep 0.1" for n in range(10)]
    said = [{"text": f"turn {n}", "calls": [{"shell": one}], "again": AGAIN} for n, one in enumerate(shells)]
    return [*said, {"text": "all done"}]


def one_storm(job: BothHarness, chance: random.Random, most: int, ledger: Path, why: str) -> Counter[str]:
    kills, child, agents = Counter[str](), job.begin(), AGENTS
    while kills.total() < most and (job.find() is None or job.info().status != "completed"):
        until = time.monotonic() + chance.uniform(0.2, 4.0)
        while time.monotonic() < until and child.poll() is None:
            assert len(job.owners()) <= 1, why
            time.sleep(0.05)
        if child.poll() is None:
            victim = chance.choice(["agent", "supervisor", "both"] if job.agents() else ["supervisor"])
            job.strike(victim, child)
            kills[victim] += 1
        if child.poll() is not None and job.find() is not None:
            to = ["--agent", chance.choice(agents)] if chance.random() < 0.7 else []
            child = job.start("resume", "job", *to, "--yes")
        elif child.poll() is not None:
            child = job.begin()
    for _ in range(20):
        child.wait(timeout=120)
        if job.info().status == "completed":
            break
        child = job.start("resume", "job", "--yes")
    assert job.info().status == "completed", f"{why}: {job.info().reason}\n{job.said}"
    assert sorted(map(int, lines(job.work))) == list(range(10)), why
    job.remembers("do the work", *(f"turn {n}" for n in range(10)))
    runs, told = Counter(ledger.read_text().split()), Counter[str]()
    for asked, result in job.results():
        if asked.startswith("echo ") and "outcome unknown" in result:
            told[asked.split()[1]] += 1
    assert {entry: number for entry, number in runs.items() if number > 1 + told[entry]} == {}, f"{why}: {runs} {told}"
    assert job.marked() == [], why
    job.do("verify", "job")
    return kills
