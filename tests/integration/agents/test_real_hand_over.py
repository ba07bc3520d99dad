"""A session handed from one real agent to another and back: the model of each leg has the whole history, each leg does
real work, and the provider accepts every request. Offline, as in test_real_adapters.py."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import relight
from tests.support import real_agents as real
from tests.support.agent_harness import AgentHarness, append, lines
from tests.support.shell import eventually

pytestmark = pytest.mark.agents


class BothHarness(AgentHarness):
    """All agents in one home, with one model."""

    def __init__(self, kind: str, base: Path, script: Any) -> None:
        super().__init__(kind, base, script)
        for other, program in PROGRAMS.items():
            if other != kind:
                (base / "bin" / other).symlink_to(program())

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


def test_a_limit_of_one_agent_hands_the_task_to_the_other_at_once(tmp_path: Path) -> None:
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
        assert (began.at - fell.at).total_seconds() < 20, "it waited, as for a limit's end"
