"""Sub-agents of real coding agents: children in the tree, told truly after a kill, counted once."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.journal.prices import Price
from relight.journal.prices import price_of as known_price
from relight.supervision.subagents import REPORTED
from relight.values.info import SessionInfo
from relight.values.usage import Usage
from tests.integration.agents.test_real_proof import Torment
from tests.support.agent_harness import SECONDS, TASK, UNKNOWN, AgentHarness, harness
from tests.support.fake_model import pairs
from tests.support.fake_model.answer import Answer
from tests.support.figures import Figure
from tests.support.shell import eventually

pytestmark = [pytest.mark.agents, pytest.mark.crash, pytest.mark.timeout(900)]
NOT_RUN = "not run"
AGENT_ID = "x-claude-code-agent-id"
PARTS = 8
PATIENT_SECONDS = 240.0
"""a run with several agents at once takes long where the machine has much else to do"""
CODEX_WAITS = (
    "for i in $(seq {tries}); do"
    " test $(grep -l task_complete $HOME/.codex/sessions/*/*/*/*.jsonl | wc -l) -ge 3 && break; sleep 0.1; done"
)
"""until three rollouts have ended; those of killed sub-agents never do"""
OPENCODE_PRICE = Price(input=1.0, output=2.0, cache_read=0.1, cache_write=0.0)
"""of its configuration in tests/support/real_agents.py"""


def script(ledger: Path, parts: int = PARTS, *, background: bool = False, pause: float = 0.2) -> dict[str, Any]:
    """A parent with sub-agents at once; each enters its number in a ledger and reports. The parent asks again for those
    of which it is told that they are in doubt or did not run."""
    asks = [{"agent": {"prompt": f"part-{one} of it", "background": background}} for one in range(parts)]
    first = {"text": "spawning", "calls": asks, "again": f"{UNKNOWN}|^{NOT_RUN}"}
    return {
        "slots": [first, {"text": "all done", "delay": 0.3}],
        "parts": {
            f"part-{one} of it": [
                {"text": f"begins {one}", "calls": [{"shell": f"echo {one} >> {ledger}; sleep {pause}"}], "delay": 0.1},
                {"text": f"report-{one}.", "delay": 0.1 + one * 0.05},
            ]
            for one in range(parts)
        },
    }


def succeeds(s: AgentHarness, words: list[str]) -> None:
    """Run a command to its end."""
    assert s.start(*words).wait(timeout=PATIENT_SECONDS) == 0, s.said


def children(s: AgentHarness) -> list[SessionInfo]:
    with relight.open(s.store, create=False) as rl:
        return [one for one in rl.sessions.list(spawned_by="job") if one.subagent is not None]


def tree_cost(s: AgentHarness) -> float:
    with relight.open(s.store, create=False) as rl:
        info = rl.sessions.find("job")
    assert info is not None and info.cost_tree is not None
    return info.cost_tree


def written_cost(s: AgentHarness, price: Price) -> tuple[float, int]:
    """The fake model's own count of the replies that the agent has written down, and the number of the others."""
    files = "\n".join(path.read_text(encoding="utf-8") for path in s.home.rglob("*.jsonl"))
    heard = {number: one for number, one in s.model.answers.items() if f'"msg_{number:06d}"' in files}
    return cost_of(heard.values(), price), len(s.model.answers) - len(heard)


def cost_of(answers: Iterable[Answer], price: Price) -> float:
    tokens = [(one.input_tokens, one.output_tokens) for one in answers]
    return sum(price.cost(Usage(input_tokens=given, output_tokens=said)) for given, said in tokens)


def told(s: AgentHarness) -> dict[str, tuple[str, str]]:
    """By the id of a call: the part that a sub-agent was asked for, and what the parent was told of it."""
    asked = [(call, result) for call, result in pairs(s.last) if call.name in ("Agent", "task")]
    return {
        call.id: (str(call.value.get("prompt", "")).partition(" ")[0], str(result.value) if result is not None else "")
        for call, result in asked
    }


def check_truth(s: AgentHarness, ledger: Path) -> Counter[str]:
    """What the parent was told of each call, against what the model and the ledger saw; how often each was told."""
    every = children(s)
    known = {one.key: one for one in every}
    # One that was killed before it wrote its first line is no child: it never came back with a result.
    came_back = {one.headers[AGENT_ID] for one in s.model.requests() if AGENT_ID in one.headers and one.slot}
    assert came_back <= {one.subagent for one in every}, "a sub-agent that ran a tool is no child"
    found: Counter[str] = Counter()
    doubted: Counter[str] = Counter()
    finished: Counter[str] = Counter()
    for call, (part, text) in told(s).items():
        child, number = known.get(call), part.removeprefix("part-")
        if not part:  # killed before opencode had written down its arguments
            assert child is None and (text.startswith(NOT_RUN) or UNKNOWN in text), (text, child)
            found["without arguments"] += 1
        elif text.startswith(NOT_RUN):
            assert child is None, f"told not to have run: {child}"
            found["not begun"] += 1
        elif "may be one of these" in text:  # killed before the description was written that names the call
            assert child is None and any(one.key is None and str(one.subagent) in text for one in every), text
            doubted[number] += 1
            found["perhaps begun"] += 1
        elif UNKNOWN in text:
            assert child is not None and child.status == "terminated" and str(child.subagent) in text, (text, child)
            doubted[number] += 1
            found["in doubt"] += 1
        else:
            assert child is not None and child.status == "completed", (text, child)
            assert f"report-{number}." in text, (text, child)
            finished[number] += 1
            found["finished"] += 1
    assert set(finished.values()) == {1}, f"finished and run again, or none finished: {finished}, {told(s)}"
    runs = Counter(ledger.read_text().split())
    assert {one: number for one, number in runs.items() if number > 1 + doubted[one]} == {}, (runs, doubted)
    return found


def price_of(s: AgentHarness) -> Price:
    price = OPENCODE_PRICE if s.kind == "opencode" else known_price(s.info().model, {})
    assert price is not None
    return price


@pytest.mark.parametrize("background", [False, True])
def test_a_sub_agent_that_fails_by_an_error_of_its_provider_has_failed_while_its_parent_works(
    background: bool, tmp_path: Path
) -> None:
    refused = {"status": 400, "body": {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}}
    ask = {"agent": {"prompt": "part-0 of it", "background": background}}
    waits = {"shell": "until test -e release; do sleep 0.05; done"}
    # Claude Code reports the end of one in the background with a request that follows it: there are some to come.
    looks = [f"test -e reported || sleep 0.5; : {number}" for number in range(20)]
    later = [{"text": "looks", "calls": [{"shell": one}]} for one in looks]
    work = {
        "slots": [
            {"text": "spawning", "calls": [ask]},
            {"text": "waits", "calls": [waits]},
            *later,
            {"text": "all done"},
        ],
        "parts": {"part-0 of it": [{"text": "begins", "calls": [{"shell": "true"}]}, refused]},
    }
    with harness("claude", tmp_path, work) as s:
        child = s.start(*s.words())
        s.reaches("working")
        eventually(lambda: [one.status for one in children(s)] == ["failed"], seconds=SECONDS, what="its failure")
        (s.work / "release").touch()
        eventually(lambda: [one.reason for one in children(s)] == [REPORTED], seconds=SECONDS, what="its parent told")
        (s.work / "reported").touch()
        assert child.wait(timeout=PATIENT_SECONDS) == 0, s.said
        [one] = children(s)
        assert one.status == "failed" and one.failure is not None and "API Error: 400" in one.failure.text
        assert one.reason == REPORTED, "its parent was told"


@pytest.mark.parametrize("kind", ["claude", "opencode", "codex"])
def test_sub_agents_are_children_with_status_tokens_and_cost(kind: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    played = script(ledger, 3)
    if kind == "codex":  # its parent does not wait by itself
        played["slots"].insert(1, {"text": "waits", "calls": [{"shell": CODEX_WAITS.format(tries=1000)}]})
    with harness(kind, tmp_path / "s", played) as s:
        succeeds(s, s.words())
        found = children(s)
        assert [one.status for one in found] == ["completed"] * 3
        assert all(one.usage.tokens and one.turns == 2 for one in found)
        assert sorted(one.said for one in found if one.said) == ["report-0.", "report-1.", "report-2."]
        asked = [s.model.answers[one.number] for one in s.model.requests()]
        tokens = sum(one.usage.tokens for one in (s.info(), *found))
        assert tokens == sum(one.input_tokens + one.output_tokens for one in asked)
        if kind != "codex":  # the price of its model is not known
            assert tree_cost(s) == pytest.approx(cost_of(asked, price_of(s)), abs=1e-9)
        refused = s.relight("resume", str(found[0].name), "--yes")
        assert refused.returncode != 0 and "sub-agent" in refused.stderr
        assert [one.attention for one in found] == [None] * 3


@pytest.mark.timeout(3600)
def test_killed_with_eight_sub_agents_each_is_told_truly_and_counted_once(
    tmp_path: Path, sample: Callable[..., int], figure: Figure
) -> None:
    tally = Tally(sample(2, proof=100))
    for s, ledger in killed_tasks("claude", tmp_path, tally, script):
        tally.told += check_truth(s, ledger)
        cost, lost = written_cost(s, price_of(s))
        assert tree_cost(s) == pytest.approx(cost, abs=1e-9), f"seed {tally.seed}"
        assert lost <= tally.latest * (PARTS + 1), f"seed {tally.seed}"
    figure("G10", f"claude, 8 sub-agents: {tally}")


@pytest.mark.timeout(3600)
def test_killed_at_random_moments_with_sub_agents_opencode_is_told_truly_of_each(
    tmp_path: Path, sample: Callable[..., int], figure: Figure
) -> None:
    tally = Tally(sample(1, proof=30))
    for s, ledger in killed_tasks("opencode", tmp_path, tally, lambda ledger: script(ledger, 3)):
        tally.told += check_truth(s, ledger)
    figure("G10", f"opencode, 3 sub-agents: {tally}")


@pytest.mark.timeout(3600)
def test_killed_at_random_moments_with_sub_agents_codex_is_told_truly_of_each(
    tmp_path: Path, sample: Callable[..., int], figure: Figure
) -> None:
    def played(ledger: Path) -> dict[str, Any]:
        waits = {"text": "waits", "calls": [{"shell": CODEX_WAITS.format(tries=100)}]}  # it does not by itself
        made = script(ledger, 3)
        return {**made, "slots": [made["slots"][0], waits, {"text": "all done"}, {"text": "and told"}]}

    tally = Tally(sample(1, proof=30))
    for s, ledger in killed_tasks("codex", tmp_path, tally, played):
        # Those that were at work when their parent ended are told with the next prompt.
        succeeds(s, ["resume", "job", "what became of them?", "--yes"])
        tally.told += check_codex(s, ledger, tally.seed)
    figure("G10", f"codex, 3 sub-agents: {tally}")


class Tally:
    """How often one agent was killed, in how many tasks (`latest`: in the one that ended last), and what its parent was
    told of its sub-agents."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.seed, self.rounds = wanted, random.randrange(2**32), 0
        self.kills, self.told, self.latest = Counter[str](), Counter[str](), 0

    def __str__(self) -> str:
        told = ", ".join(f"{number} {what}" for what, number in sorted(self.told.items()))
        return f"{self.kills.total()} SIGKILLs in {self.rounds} tasks; told truly: {told}"


def killed_tasks(
    kind: str, tmp_path: Path, tally: Tally, played: Callable[[Path], Any]
) -> Iterator[tuple[AgentHarness, Path]]:
    """Tasks that were killed at random moments and then left to end, until there were kills enough; with their
    ledgers."""
    chance = random.Random(tally.seed)
    while tally.kills.total() < tally.wanted:
        base, tally.rounds = tmp_path / f"round{tally.rounds}", tally.rounds + 1
        with harness(kind, base, played(base / "ledger")) as s:
            torment, start = Torment(s, chance), s.words()
            while tally.kills.total() + torment.kills.total() < tally.wanted and torment.once(start):
                start = ["resume", "job", "--yes"] if s.find() is not None else start
            ends(s, torment, tally.seed)
            tally.latest = torment.kills.total()
            tally.kills += torment.kills
            s.remembers(TASK, "spawning")
            assert not s.marked(), f"seed {tally.seed}: an orphan was left"
            yield s, base / "ledger"


def check_codex(s: AgentHarness, ledger: Path, seed: int) -> Counter[str]:
    """What the parent was told of each sub-agent, against its own file and the ledger; how often each was told."""
    everything = "\n".join(str(item.value) for item in s.last)
    found: Counter[str] = Counter()
    begun: Counter[str] = Counter()
    finished: Counter[str] = Counter()
    with relight.open(s.store, create=False) as rl:
        parts = {one.id: str(rl.history.messages(one.id, format="openai_chat")) for one in children(s)}
    for child in children(s):
        part = re.search(r"part-(\d) of it", parts[child.id])
        was_cut = f"sub-agent {child.subagent} was at work" in everything
        seen = f"seed {seed}: {child}, cut: {was_cut}, in its conversation: {part}"
        if child.status == "completed":
            assert part is not None and f"report-{part[1]}." in everything and not was_cut, seen
            finished[part[1]] += 1
        else:
            assert child.status == "terminated" and was_cut, seen
        begun[part[1] if part is not None else ""] += 1
        found["finished" if child.status == "completed" else "in doubt"] += 1
    for call, result in pairs(s.last):
        if call.name == "spawn_agent" and result is not None and str(result.value).startswith(NOT_RUN):
            assert call.id not in {one.key for one in children(s)}, f"seed {seed}: told not to have run: {call}"
            found["not begun"] += 1
    assert all(number == 1 for number in finished.values()), f"seed {seed}: finished and run again: {finished}"
    runs = Counter(ledger.read_text().split()) if ledger.exists() else Counter()
    assert {one: number for one, number in runs.items() if number > begun[one]} == {}, f"seed {seed}: {runs}, {begun}"
    return found


def ends(s: AgentHarness, torment: Torment, seed: int) -> None:
    """Leave it to end."""
    end = time.monotonic() + PATIENT_SECONDS
    while s.find() is None or s.info().status != "completed":
        assert time.monotonic() < end, f"seed {seed}: it does not end: {s.said}"
        if torment.child is None or torment.child.poll() is not None:
            torment.child = s.start(*(["resume", "job", "--yes"] if s.find() is not None else s.words()))
        torment.child.wait(timeout=PATIENT_SECONDS)


def test_a_background_sub_agent_that_finished_before_the_death_is_reported_to_its_parent(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    played = script(ledger, 2, background=True)
    played["slots"][1] = [{"text": "waiting", "hang": "before"}, {"text": "all done"}]
    with harness("claude", tmp_path / "s", played) as s:
        child = s.begin()
        eventually(lambda: len(finished(s)) == 2, seconds=PATIENT_SECONDS, what="both sub-agents finished")
        s.strike("both", child)
        succeeds(s, ["resume", "job", "--yes"])
        everything = "\n".join(str(item.value) for item in s.last)
        assert "report-0." in everything and "report-1." in everything
        assert sorted(ledger.read_text().split()) == ["0", "1"]
        assert {one.reason for one in children(s)} == {"its parent has the report"}


def finished(s: AgentHarness) -> list[SessionInfo]:
    return [one for one in children(s) if one.status == "completed"] if s.find() is not None else []


def test_killed_with_sub_agents_opencode_is_told_which_finished_and_what_the_others_did(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    played = script(ledger, 2)
    played["parts"]["part-1 of it"][1] = [{"text": "never", "hang": "before"}, {"text": "report-1."}]
    with harness("opencode", tmp_path / "s", played) as s:
        child = s.begin()
        eventually(
            lambda: len(finished(s)) == 1 and len(s.model.requests()) == 5, seconds=PATIENT_SECONDS, what="one report"
        )
        s.strike("both", child)
        succeeds(s, ["resume", "job", "--yes"])
        found = check_truth(s, ledger)
        assert found == {"finished": 2, "in doubt": 1}
        assert sorted(ledger.read_text().split()) == ["0", "1", "1"]


def test_killed_with_sub_agents_codex_is_told_which_finished_and_what_the_others_did(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    played = script(ledger, 2)
    played["slots"][1] = [{"text": "waiting", "hang": "before"}, {"text": "all done"}]
    played["parts"]["part-1 of it"][1] = {"text": "never", "hang": "before"}
    with harness("codex", tmp_path / "s", played) as s:
        child = s.begin()
        eventually(
            lambda: len(finished(s)) == 1 and len(s.model.requests()) == 6, seconds=PATIENT_SECONDS, what="one report"
        )
        s.strike("both", child)
        succeeds(s, ["resume", "job", "--yes"])
        everything = "\n".join(str(item.value) for item in s.last)
        [cut] = [one for one in children(s) if one.status == "terminated"]
        assert "report-0." in everything and f"sub-agent {cut.subagent} was at work" in everything
        assert f"echo 1 >> {ledger}" in everything, "what it had done is told"
        assert sorted(ledger.read_text().split()) == ["0", "1"]
