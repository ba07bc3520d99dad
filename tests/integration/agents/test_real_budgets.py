"""Real agents with a budget: halted before the first model call beyond it, over all attempts, and the cost is shown."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import relight
from tests.support.agent_harness import KINDS, SECONDS, TASK, AgentHarness, append, harness, lines
from tests.support.shell import eventually

pytestmark = pytest.mark.agents
DONE = {"text": "all done"}
SCRIPT = [append("one"), append("two"), append("three"), DONE]
HALTED = 6
PRICE = '[models."fake-model"]\ninput = 4.0\noutput = 20.0\n'
"""of Codex's model; that of Claude is in the table, with the same price"""


def prices(base: Path) -> str:
    path = base.parent / "prices.toml"
    path.write_text(PRICE)
    return str(path)


def halted(s: AgentHarness, *flags: str) -> int:
    """Run with these limits: how many model calls were made before it was halted."""
    done = s.relight(*s.words(*flags))
    info = s.info()
    assert (info.status, done.returncode) == ("halted", HALTED), (info, done.stderr)
    assert info.failure is not None and info.failure.kind == "limit"
    return len(s.model.requests())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flag", ["--budget", "--budget-tokens"])
def test_a_real_agent_is_halted_before_the_first_model_call_beyond_its_budget(
    kind: str, flag: str, tmp_path: Path
) -> None:
    with harness(kind, tmp_path / "s", SCRIPT, RELIGHT_PRICES=prices(tmp_path / "s")) as s:
        assert halted(s, flag, "0.00001" if flag == "--budget" else "5") == 1
        assert not s.agents()
    with harness(kind, tmp_path / "t", SCRIPT, RELIGHT_PRICES=prices(tmp_path / "t")) as s:
        # a reply reads about ten thousand tokens: two of them reach this, one does not
        assert halted(s, flag, "0.06" if flag == "--budget" else "15000") == 2
        assert s.relight("resume", "job", "--yes").returncode == 4, "no more may be spent"
        s.do("resume", "job", "--yes", flag, "9" if flag == "--budget" else "9000000")
        info = s.info()
        assert info.status == "completed"
        assert len(s.model.requests()) == 4
        assert lines(s.work) == ["one", "two", "three"] or lines(s.work) == ["one", "three"]
        assert info.cost is not None and 0.1 < info.cost < 0.5
        assert s.json("show", "job")["cost"] == pytest.approx(info.cost)
        s.remembers(TASK, "writes one", "writes two")


def test_gemini_is_halted_before_the_first_model_call_beyond_its_budget(tmp_path: Path) -> None:
    with harness("gemini", tmp_path, SCRIPT) as s:
        # a reply reads about ten thousand tokens: two of them reach this, one does not
        assert halted(s, "--budget-tokens", "15000") == 2
        # Whether the last call begins depends on when Gemini writes the reply's usage; the model is not asked again.
        assert lines(s.work) in (["one"], ["one", "two"])
        s.do("resume", "job", "--yes", "--budget-tokens", "9000000")
        assert s.info().status == "completed"
        # The call that did not begin is in no file of its own: the model is asked for it again.
        assert lines(s.work) == ["one", "two", "three"]
        s.remembers(TASK, "writes one", "writes two")


@pytest.mark.parametrize("kind", KINDS)
def test_a_real_agent_is_halted_by_the_budget_of_the_session_that_began_it(kind: str, tmp_path: Path) -> None:
    with (
        harness(kind, tmp_path / "s", SCRIPT) as s,
        relight.open(s.store) as rl,
        rl.session("plan", budget_tokens=15_000) as plan,
    ):
        s.variables["RELIGHT_PARENT"] = plan.id
        assert halted(s) == 2
        info = s.info()
        assert info.spawned_by == plan.id and "token budget of plan reached" in (info.reason or "")
        assert not s.agents()


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_without_a_price_makes_a_budget_of_money_refused_or_halted(kind: str, tmp_path: Path) -> None:
    named = {"ANTHROPIC_MODEL": "claude-nobody-knows-1"} if kind == "claude" else {}
    with harness(kind, tmp_path, SCRIPT, **named) as s:
        done = s.relight(*s.words("--budget", "5"))
        assert done.returncode == 2
        assert "--budget-tokens" in done.stderr
        assert s.find() is None
        assert not s.model.requests()


def test_the_agents_own_figure_is_what_counts(tmp_path: Path) -> None:
    with harness("claude", tmp_path, [append("one"), DONE, {"text": "more"}]) as s:
        s.run()
        first = s.info().cost
        s.do("resume", "job", "more", "--yes")
        second = s.info().cost
        assert first is not None and second is not None and second > first
        assert second == pytest.approx(4e-6 * s.info().usage.input_tokens + 20e-6 * s.info().usage.output_tokens)


def comes_to_its_tool(s: AgentHarness, child: subprocess.Popen[str]) -> bool:
    """False where it ended before, by its limit."""
    eventually(lambda: lines(s.work) or child.poll() is not None, seconds=SECONDS, what="the tool running")
    return bool(lines(s.work))


@pytest.mark.crash
@pytest.mark.parametrize("kind", KINDS)
def test_time_counts_over_all_attempts_and_nothing_of_it_works_on(kind: str, tmp_path: Path) -> None:
    for limit in (6, 30, 150):  # where a busy machine has not come to the tool by then, it gets more time
        with harness(kind, tmp_path / str(limit), [append("one", "sleep 361"), DONE]) as s:
            child = s.begin("--time-limit", str(limit))
            if not comes_to_its_tool(s, child):
                continue
            s.strike("both", child)
            done = s.relight("resume", "job", "--yes")
            assert (s.info().status, done.returncode) == ("halted", HALTED) or s.info().status == "completed"
            assert s.info().worked_seconds < limit + SECONDS, "its tool would have slept for longer"
            break
    else:
        pytest.fail("it never came to its tool")
    with harness(kind, tmp_path / "again", [append("one", "sleep 62"), DONE]) as s:
        done = s.relight(*s.words("--time-limit", "4"))
        assert (s.info().status, done.returncode) == ("halted", HALTED), done.stderr
        assert "time limit reached" in (s.info().reason or "")
        assert not s.marked(), "what its tool had started works on"
