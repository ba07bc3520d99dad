"""Agents besides Claude Code and Codex, real and offline: killed, resumed, forked, rewound, adopted, out of quota."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.agent_harness import OTHERS, SECONDS, TASK, UNKNOWN, append, begin_alone, harness, lines
from tests.support.fake_model import texts
from tests.support.shell import eventually

pytestmark = [pytest.mark.agents, pytest.mark.crash]
STUCK = append("two", "exec sleep 60")
DONE = {"text": "all done"}
TRIES = {"pi": 3, "opencode": 6, "gemini": 1}
"""requests of an agent until it reports a used-up quota: it tries again by itself"""
MORE = {"text": "more done"}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_run_goes_to_its_end_with_its_tokens_and_cost(kind: str, tmp_path: Path) -> None:
    used = {"usage": {"input_tokens": 1000, "output_tokens": 100, "cached": 500}}
    script = [{**append("one"), **used}, {**append("two"), **used}, {**DONE, **used}]
    # pi and opencode know the prices of their models.
    prices = tmp_path / "prices.toml"
    prices.write_text('[models."gemini-2.5-pro"]\ninput = 1.0\noutput = 2.0\ncache_read = 0.1\n')
    with harness(kind, tmp_path, script, RELIGHT_PRICES=str(prices)) as s:
        s.run()
        info = s.info()
        assert (info.agent, info.status, info.attempt, info.said, info.turns) == (kind, "completed", 1, "all done", 3)
        assert lines(s.work) == ["one", "two"]
        s.remembers(TASK, "writes one", "writes two")
        usage = info.usage
        assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (3000, 300, 1500)
        assert usage.cost == pytest.approx((3000 * 1.0 + 300 * 2.0 + 1500 * 0.1) / 1e6)
        s.do("verify", "job")
        assert not s.marked()
        cannot = s.json("can-resume", "job")["agent"]["cannot"]
        assert ("report a tool call before it runs" in cannot) == (kind != "gemini"), "Gemini CLI has a hook of ours"


@pytest.mark.parametrize("victim", ["agent", "both"])
@pytest.mark.parametrize("kind", OTHERS)
def test_killed_inside_a_tool_the_model_is_told_what_is_unknown_and_what_changed(
    kind: str, victim: str, tmp_path: Path
) -> None:
    with harness(kind, tmp_path, [append("one"), STUCK, DONE]) as s:
        child = s.begin()
        eventually(lambda: lines(s.work) == ["one", "two"], seconds=SECONDS, what="the tool running")
        agent = s.the_agent()
        s.strike(victim, child)
        if victim == "agent":
            s.ends(child)
        else:
            s.do("resume", "job", "--yes")
        assert agent not in s.agents()
        assert (s.info().status, s.info().attempt) == ("completed", 2)
        s.remembers(TASK, "writes one", "writes two")
        reported = s.reported("echo two")
        assert UNKNOWN in reported and "log.txt" in reported, reported
        assert lines(s.work) == ["one", "two"]
        assert not s.marked(), "an orphan was left"
        s.do("verify", "job")


@pytest.mark.parametrize("kind", OTHERS)
def test_killed_before_the_first_reply_the_task_is_asked_again(kind: str, tmp_path: Path) -> None:
    with harness(kind, tmp_path, [[{"hang": "before"}, append("one")], DONE]) as s:
        child = s.begin()
        s.model.wait_for(1, SECONDS)
        s.strike("agent", child)
        s.ends(child)
        s.remembers(TASK, "writes one")
        assert lines(s.work) == ["one"]


@pytest.mark.parametrize("kind", OTHERS)
def test_a_fork_a_rewind_and_a_blank_home_have_the_conversation_of_their_checkpoint(kind: str, tmp_path: Path) -> None:
    with harness(kind, tmp_path, [append("one"), {**append("two"), "delay": 1.0}, DONE, MORE]) as s:
        s.run()
        there, blank = tmp_path / "there", tmp_path / "blank"
        blank.mkdir()
        seq = s.after_turn(1)
        s.do("fork", f"job@{seq}", "--name", "try", "--workspace", str(there))
        before = len(s.model.requests())
        s.do("resume", "try", "another way", "--yes", home=blank)
        first = s.model.requests()[before]
        s.remembers(TASK, "writes one", "another way", request=first)
        assert "writes two" not in "\n".join(texts(first.items))
        assert (lines(there), s.info("try").status) == (["one", "two"], "completed")
        s.do("rewind", f"job@{seq}", "--both")
        assert lines(s.work) == ["one"]
        before = len(s.model.requests())
        s.do("resume", "job", "differently", "--yes")
        s.remembers(TASK, "writes one", "differently", request=s.model.requests()[before])
        assert "writes two" not in "\n".join(texts(s.model.requests()[before].items))
        assert lines(s.work) == ["one", "two"]
        s.do("verify", "job")


@pytest.mark.parametrize("kind", OTHERS)
def test_a_session_that_was_begun_without_relight_is_adopted_and_goes_on(kind: str, tmp_path: Path) -> None:
    with harness(kind, tmp_path, [append("one"), DONE, append("two"), MORE]) as s:
        begin_alone(s)
        s.do("adopt", "--name", "job", "--", *s.agent()[:-1])
        s.do("resume", "job", "go on", "--yes")
        s.remembers(TASK, "writes one", "all done", "go on", "writes two")
        assert lines(s.work) == ["one", "two"]
        assert s.info().status == "completed"


@pytest.mark.parametrize("kind", OTHERS)
def test_a_usage_limit_is_waited_for_until_its_reset_and_then_it_goes_on(kind: str, tmp_path: Path) -> None:
    text = "You have hit your usage limit. Try again in 6 seconds."
    # The header makes opencode's own retries short; it gives up after six.
    limit = {
        "status": 429,
        "headers": {"retry-after": "1"},
        "body": {"error": {"type": "usage_limit_reached", "message": text}},
    }
    since = time.time()
    with harness(
        kind, tmp_path, [append("one"), [*[limit] * TRIES[kind], append("two")], DONE], RELIGHT_LEAST_WAIT="1"
    ) as s:
        child = s.begin()
        waiting = s.reaches("queued")
        assert waiting.failure is not None and waiting.failure.kind == "usage_limit"
        assert waiting.wake_at is not None and waiting.wake_at.timestamp() > since + 6
        s.ends(child)
        assert s.info().status == "completed"
        assert lines(s.work) == ["one", "two"]
        s.remembers(TASK, "writes one", "writes two")
