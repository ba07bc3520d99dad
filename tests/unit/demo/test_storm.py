"""Whatever the moments of the kills, the task ends as if there had been none."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.demo.script import NO_MAIL, PROMPT, reply
from relight.demo.stage import Stage
from relight.demo.storm import first_difference, settled
from relight.values.call import OUTCOME_UNKNOWN
from tests.support.figures import Figure
from tests.unit.demo.playing import environment, numbers, play, players

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("worker", range(2))
def test_kills_at_random_moments_change_nothing(
    worker: int, tmp_path: Path, sample: Callable[..., int], figure: Figure
) -> None:
    kills = 0
    for seed in range(worker, sample(2, proof=200, teeth=2), 2):
        storm = numbers(play("--storm", "--fast", "--json", "--seed", str(seed), temporary=tmp_path))
        assert storm["seed"] == seed
        assert storm["storm"]["status"] == "completed"
        assert storm["storm"]["mails"] == storm["alone"]["mails"] == 1
        assert storm["storm"]["model_calls_repeated"] <= storm["kills"]
        assert storm["kills"] < storm["lives"]
        assert storm["steps_lost"] == storm["problems"] == storm["snapshots_damaged"] == 0
        assert storm["snapshots"] >= 2, "before the edit and after it"
        assert list(tmp_path.iterdir()) == []
        kills += storm["kills"]
    assert players(tmp_path) == []
    figure("G2", f"{kills} kills of the demo's agent, journal and every snapshot whole after each")


def test_its_numbers_are_those_of_the_world_and_the_journal(tmp_path: Path) -> None:
    storm = numbers(play("--storm", "--fast", "--json", "--seed", "11", "--keep", temporary=tmp_path))
    root = Path(storm["kept_in"])
    asked = [json.loads(line) for line in (root / "world" / "requests.jsonl").read_text("utf-8").splitlines()]
    turns = Counter(one["turn"] for one in asked if one["run"] == "storm")
    assert storm["storm"]["model_calls_repeated"] == turns.total() - len(turns)
    assert len((root / "world" / "storm.outbox").read_text("utf-8").splitlines()) == storm["storm"]["mails"]
    with relight.open(root / "demo.db") as rl:
        attempts = [event.attempt for event in rl.tail("storm") if event.kind == "attempt"]
        assert rl.get("storm").seq == storm["storm"]["steps"]
    assert attempts == list(range(1, storm["storm"]["attempts"] + 1))
    assert storm["kills"] >= 1


def test_a_kill_between_the_last_word_and_the_verdict_asks_for_no_other_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Stage(keep=False) as stage, relight.open(stage.store) as rl:
        stage.start_world(think_seconds=0)
        stage.lay_out("alone")
        stage.lay_out("late")
        stage.start_agent("alone").wait_end()
        program = [sys.executable, "-m", "relight.demo.agent", "--store", str(stage.store)]
        armed = environment(tmp_path, RELIGHT_FAULT=f"commit.told:{rl.get('alone').seq - 1}:kill")
        with subprocess.Popen(program, cwd=stage.shop("late"), env=armed, stdin=subprocess.PIPE) as agent:
            assert agent.wait(60) == -signal.SIGKILL
        assert rl.load("late").messages == rl.load("alone").messages
        stage.start_agent("late").wait_end()
        assert rl.get("late").status == "completed"
        assert rl.load("late").messages == rl.load("alone").messages


def converse(*mails: tuple[str, str]) -> list[dict[str, Any]]:
    """The script's conversation where sending and looking give these results."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": PROMPT}]
    results = iter([result for pair in mails for result in pair])
    for _ in range(20):
        message = reply(messages)
        messages.append(message)
        calls = [block for block in message["content"] if block["type"] == "tool_use"]
        if not calls:
            return messages
        given = [
            {
                "type": "tool_result",
                "tool_use_id": call["id"],
                "content": next(results) if call["name"] in ("send_mail", "check_outbox") else "6 passed",
            }
            for call in calls
        ]
        messages.append({"role": "user", "content": given})
    raise AssertionError("the script does not end")


CALM = converse(("sent", "1 mail found"))
STORMS = {
    "no doubt": converse(("sent", "1 mail found")),
    "it had gone out": converse((OUTCOME_UNKNOWN, "1 mail found")),
    "it had not gone out": converse((OUTCOME_UNKNOWN, NO_MAIL), ("sent", "1 mail found")),
    "twice not": converse((OUTCOME_UNKNOWN, NO_MAIL), (OUTCOME_UNKNOWN, NO_MAIL), ("sent", "1 mail found")),
    "not, then it had": converse((OUTCOME_UNKNOWN, NO_MAIL), (OUTCOME_UNKNOWN, "1 mail found")),
}


@pytest.mark.parametrize("storm", STORMS)
def test_a_doubt_that_was_looked_into_makes_no_difference(storm: str) -> None:
    assert first_difference(settled(STORMS[storm]), settled(CALM, like=STORMS[storm])) is None


OTHERS = {
    "two mails": converse((OUTCOME_UNKNOWN, "2 mails found")),
    "sent, and not found": converse(("sent", NO_MAIL), ("sent", "1 mail found")),
    "cut": CALM[:-1],
    "a step twice": [*CALM[:3], *CALM[1:]],
}


@pytest.mark.parametrize("other", OTHERS)
def test_any_other_difference_is_one(other: str) -> None:
    assert first_difference(settled(OTHERS[other]), settled(CALM, like=OTHERS[other])) is not None
