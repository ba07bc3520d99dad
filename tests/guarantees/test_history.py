"""G7: whenever the model is asked, the history is one that its provider accepts, whatever died before.

Random conversations in five formats, one to eight parallel calls, driven through the library by a program that is
killed at random places: between any two lines, inside a tool, after an intent, in the middle of appending by hand.
Forks and rewinds at random checkpoints are asked about too.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from relight.journal.formats.registry import by_name
from relight.library.facade import Relight
from relight.ports import faults
from relight.sessions.session import Session
from relight.testing.conversation import lint
from tests.support.figures import Figure
from tests.support.simulation import Simulation
from tests.unit.journal.conversations import FORMAT_NAMES, Messages, call_ids, random_conversation, results_of

MAX_LIVES = 200
PROVIDERS = {
    "anthropic": "anthropic",
    "openai_chat": "openai",
    "openai_responses": "openai responses",
    "bedrock": "bedrock-converse",
    "gemini": "google-genai",
}
TOOLS = ("Bash", "exec_command", "Write", "Edit", "read_file", "apply_patch", "charge_card")
POINTS = ("commit.enter", "commit.begun", "commit.committed", "tool.asked", "tool.intended", "tool.done")


class Died(BaseException):
    """The process ends here."""


class Life:
    """One conversation with a scripted model, and a program that is killed and started again until it is through."""

    def __init__(self, seed: int, name: str) -> None:
        self.rng = Random(seed)
        self.name = name
        script = random_conversation(self.rng, name, max_turns=4)
        self.replies = _replies(name, script)
        self.opening = script[: next(i for i, m in enumerate(script) if _is_reply(name, m))] if self.replies else script
        self.world = Simulation(seed=seed)
        self.tools = dict.fromkeys(TOOLS, self._tool)
        self.asked = 0
        self.crashes = 0

    def drive(self) -> Relight:
        for _ in range(MAX_LIVES):
            rl = self.world.restart()
            try:
                self._arm()
                self._program(rl)
                faults.disarm()
                return rl
            except Died:
                self.crashes += 1
            finally:
                faults.disarm()
        raise AssertionError("it never came to its end")

    def _arm(self) -> None:
        if self.crashes >= 25:
            return
        point, left = self.rng.choice(POINTS), self.rng.randint(1, 12)

        def die(_: str) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Died

        faults.arm(point, die)

    def _program(self, rl: Relight) -> None:
        s = rl.session("a", provider=PROVIDERS[self.name])
        if s.is_finished:
            return
        for message in self.opening[len(s.messages) :]:
            s.append(message)
        while s._recorder.head.turns < len(self.replies):
            calls = s.pending_calls()
            if self.rng.random() < 0.3:
                self.rng.shuffle(calls)
            for call in calls:
                s.run_tool(call, self.tools)
            if _is_reply(self.name, s.messages[-1]) or self.rng.random() < 0.1:
                s.append(_hurry(self.name))
            s.append(self._model(s))
            if self.rng.random() < 0.1:
                s.append(_hurry(self.name))
        for call in s.pending_calls():
            s.run_tool(call, self.tools)
        s.complete()

    def _tool(self, **_: Any) -> Any:
        chance = self.rng.random()
        if chance < 0.05:
            raise Died
        if chance < 0.1:
            raise ValueError("it failed")
        return self.rng.choice(["ok", "", {"n": 1}, None, ["x"], "line\nline"])

    def _model(self, s: Session) -> Messages:
        """What a strict provider would say first of all."""
        assert lint(s.messages) == [], s.messages
        calls = call_ids(self.name, s.messages)
        assert sorted(call for call, _ in results_of(self.name, s.messages)) == sorted(calls)
        self.asked += 1
        return self.replies[s._recorder.head.turns]


def _is_reply(name: str, message: dict[str, Any]) -> bool:
    if name == "openai_responses":
        kind = str(message.get("type"))
        return message.get("role") == "assistant" or ("role" not in message and not kind.endswith("_output"))
    return message["role"] in ("assistant", "model")


def _hurry(name: str) -> dict[str, Any]:
    return by_name(name).user("hurry") if name in ("bedrock", "gemini") else {"role": "user", "content": "hurry"}


def _replies(name: str, script: Messages) -> list[Messages]:
    """The runs of messages that one reply of the model consists of."""
    replies: list[Messages] = []
    last = -2
    for index, message in enumerate(script):
        if _is_reply(name, message):
            if last == index - 1 and name == "openai_responses":
                replies[-1].append(message)
            else:
                replies.append([message])
            last = index
    return replies


def _look_everywhere(life: Life, rl: Relight) -> int:
    """Fork and rewind to random checkpoints; each must give a history the provider takes once its calls are closed."""
    looked = 0
    checkpoints = rl.history.checkpoints("a")
    for checkpoint in life.rng.sample(checkpoints, min(3, len(checkpoints))):
        fork = rl.history.fork(f"a@{checkpoint.seq}")
        with rl.session(fork.id) as s:
            for call in s.pending_calls():
                s.run_tool(call, life.tools)
            assert lint(s.messages) == []
        looked += 1
    target = life.rng.choice(checkpoints)
    rl.history.rewind(f"a@{target.seq}")
    with rl.session("a") as s:
        s.append(_hurry(life.name))
        s.append(_final(life.name))
        assert lint(s.messages) == []
    return looked + 1


def _final(name: str) -> dict[str, Any]:
    if name in ("bedrock", "gemini"):
        return by_name(name).assistant("so be it")
    if name == "openai_responses":
        text = [{"type": "output_text", "text": "so be it"}]
        return {"type": "message", "role": "assistant", "content": text}
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": "so be it"}] if name == "anthropic" else "so be it",
    }


@pytest.mark.guarantee("G7")
@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_every_history_shown_to_the_model_is_valid(name: str, sample: Any, figure: Figure) -> None:
    asked = crashes = looked = 0
    conversations = sample(150 if name not in ("bedrock", "gemini") else 50, proof=4_000, teeth=60)
    for seed in range(conversations):
        life = Life(seed, name)
        try:
            rl = life.drive()
            life.rng.random()
            looked += _look_everywhere(life, rl)
        except Died:
            crashes += 1
            continue
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from None
        asked, crashes = asked + life.asked, crashes + life.crashes
    figure(
        "G7",
        f"{conversations} conversations ({name}), {crashes} crashes, the model asked {asked} times,"
        f" {looked} forks and rewinds, 0 invalid histories",
    )
