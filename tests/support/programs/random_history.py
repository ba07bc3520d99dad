"""A random history: conversations with tools of every effect, verdicts, rewinds, undo, redo, forks, settling.

What takes effect is counted outside, by key: `take` is called at the very moment. Whoever drives it may kill it
anywhere and start it again over the same store; what it finds is all it knows.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any

import relight
from relight.errors import InDoubt, NotFound, RelightError, Waiting
from relight.library.facade import Relight
from relight.sessions.session import Session
from tests.support.programs.agent import write_line

KEYS = ("pay", "tag")
TOOLS = ("once", "probe", "idempotent")
SEEN = ("head", "status", "reason", "failure", "question", "said", "wake_at", "message_count", "turns", "queue")
"""what a reader sees of a session; its effects are told apart, because they are not undone"""

Taken = Callable[[str], bool]


class History:
    """One life of a process in a random history."""

    def __init__(self, rl: Relight, rng: Random, take: Callable[[str], None], was_taken: Taken) -> None:
        self.rl, self.rng, self._take, self._was_taken = rl, rng, take, was_taken
        self.existing: dict[str, list[Any]] = {}
        self.undone: dict[str, list[Any]] = {}
        """for each session what is to be seen after the next undo, and after the next redo"""
        self.undos = 0

    def play(self, acts: int) -> None:
        """Do so many things to random sessions."""
        for _ in range(acts):
            session = self.rng.choice(self.sessions() or ["main"])
            act = self.rng.choices(
                [self.work, self.rewind, self.undo, self.redo, self.fork, self.settle], [10, 4, 3, 2, 2, 2]
            )[0]
            act(session)

    def sessions(self) -> list[str]:
        return sorted(info.id for info in self.rl.sessions.list())

    # -- working ----------------------------------------------------------------------------------------------------

    def work(self, session: str) -> None:
        """Open it, do a few things, and end in some way."""
        try:
            s = self.rl.session(session)
        except NotFound:
            return
        if s.is_finished:
            self.rl.runs.send(s.id, "more")
            s = self.rl.session(s.id)
        for _ in range(self.rng.randint(1, 4)):
            self.rng.choice([self._say, self._ask, self._run, self._run, self._once, self._compact])(s)
        self._end(s)

    def _say(self, s: Session) -> None:
        s.append({"role": self.rng.choice(["user", "assistant"]), "content": f"say {self.rng.random()}"})

    def _ask(self, s: Session) -> None:
        calls = [
            {
                "id": f"c{number}",
                "type": "function",
                "function": {"name": self.rng.choice(TOOLS), "arguments": f'{{"mark": "{self.rng.random()}"}}'},
            }
            for number in range(self.rng.randint(1, 2))
        ]
        s.append({"role": "assistant", "content": None, "tool_calls": calls})

    def _run(self, s: Session) -> None:
        for call in s.pending_calls():
            if self.rng.random() < 0.7:
                s.run_tool(call, self.tools())

    def _once(self, s: Session) -> None:
        key = self.rng.choice(KEYS)
        generation = s._recorder.fold.generations.get(key, 1)
        try:
            s.once(key, lambda: self._take(f"{s.id}:{key}/{generation}"))
        except InDoubt:
            s.settle(key, **({"retry": True} if self.rng.random() < 0.5 else {"result": None}))

    def _compact(self, s: Session) -> None:
        if self.rng.random() < 0.3:
            s.replace([{"role": "user", "content": "so far"}, *s.messages[-2:]])

    def _end(self, s: Session) -> None:
        how = self.rng.randrange(5)
        if how == 0:
            s.complete({"answer": self.rng.random()})
        elif how == 1:
            s.fail("it failed")
        elif how == 2:
            s.halt("enough")
        elif how == 3:
            try:
                s.ask(f"which? {self.rng.random()}")
            except Waiting:
                return
        s.close()

    def tools(self) -> list[Any]:
        """Each takes effect outside, under its key."""

        def once(mark: str, idempotency_key: str) -> str:
            self._take(f"once:{idempotency_key}")
            return f"did {mark}"

        def probe(mark: str, idempotency_key: str) -> str:
            self._take(f"probe:{idempotency_key}")
            return f"did {mark}"

        def look(mark: str, idempotency_key: str) -> str | None:
            return f"did {mark}" if self._was_taken(f"probe:{idempotency_key}") else None

        def idempotent(mark: str, idempotency_key: str) -> str:
            return f"did {mark}"

        return [
            relight.tool(effect="once")(once),
            relight.tool(effect="probe", probe=look)(probe),
            relight.tool(effect="idempotent")(idempotent),
        ]

    # -- going back and forth -----------------------------------------------------------------------------------------

    def seen(self, session: str) -> dict[str, Any]:
        """What a reader sees, but seq and times, and what no undo takes back."""
        info, loaded = self.rl.sessions.get(session), self.rl.history.load(session)
        reported = {name: getattr(info, name) for name in SEEN}
        return {**reported, "result": loaded.result, "messages": loaded.messages, "state": loaded.state}

    def rewind(self, session: str) -> None:
        info = self.rl.sessions.get(session)
        own = [one.seq for one in self.rl.history.checkpoints(session)]
        if not own:
            return
        target = f"{session}@{self.rng.choice(own)}"
        planned = self.rl.history.planned_calls(target, after="rewind")
        again = [one.id for one in planned if self.rng.random() < 0.15]
        before, known = self.seen(session), len(self.rl.history.operations(session))
        self.rl.history.rewind(target, again=again)
        if self.rl.sessions.get(session).head != info.head or info.status == "completed":
            self.existing.setdefault(session, []).append(before)
            self.undone.pop(session, None)
        assert len(self.rl.history.operations(session)) == known + 1

    def undo(self, session: str) -> None:
        self._move(session, redo=False, come_from=self.existing, go_to=self.undone)

    def redo(self, session: str) -> None:
        self._move(session, redo=True, come_from=self.undone, go_to=self.existing)

    def _move(self, session: str, *, redo: bool, come_from: dict[str, list[Any]], go_to: dict[str, list[Any]]) -> None:
        before = self.seen(session)
        try:
            (self.rl.history.redo if redo else self.rl.history.undo)(session)
        except NotFound:
            assert not come_from.get(session), "it was not undone"
            return
        go_to.setdefault(session, []).append(before)
        if come_from.get(session):
            now, then = self.seen(session), come_from[session].pop()
            differs = {name: (then[name], now[name]) for name in then if then[name] != now[name]}
            assert not differs, f"{'redo' if redo else 'undo'} left a difference: {differs}"
            self.undos += 1

    def fork(self, session: str) -> None:
        own = [one.seq for one in self.rl.history.checkpoints(session)]
        if not own or len(self.sessions()) >= 5:
            return
        known, at = self.sessions(), self.rng.choice([own[-1], *own])
        self.rl.history.fork(f"{session}@{at}")
        if self.rng.random() < 0.5:  # both go on with the same numbers, and with calls of the same ids
            for one in (session, *(set(self.sessions()) - set(known))):
                self._ask_and_run(one)

    def _ask_and_run(self, session: str) -> None:
        s = self.rl.session(session)
        if not s.is_finished:
            self._ask(s)
            self._run(s)
        s.close()

    def settle(self, session: str) -> None:
        for call in self.rl.runs.plan(session, disk=False).calls:
            chance = self.rng.random()
            try:
                if chance < 0.3:
                    self.rl.runs.settle(session, call.id, retry=True)
                elif chance < 0.6:
                    self.rl.runs.settle(session, call.id, result="settled")
            except NotFound:
                assert call.action == "carry", "what is open can be settled"


def forgotten(rl: Relight, taken: set[str]) -> list[str]:
    """Effects that ran and that their sessions would begin again under the same key, wherever they go back to."""
    lost = []
    for info in rl.sessions.list():
        for checkpoint in rl.history.checkpoints(info.id):
            if checkpoint.kind not in ("message", "reset", "intent"):
                continue
            for after in ("rewind", "fork"):
                for call in rl.history.planned_calls(f"{info.id}@{checkpoint.seq}", after=after):
                    ran = any(f"{kind}:{call.key}" in taken for kind in TOOLS)
                    if ran and call.action == "run":
                        lost.append(f"{after} to {info.id}@{checkpoint.seq}: {call}")
    return lost


def misattributed(rl: Relight) -> list[str]:
    """Results that a session's conversation has for another call than the one that was run."""
    wrong = []
    for info in rl.sessions.list():
        asked: dict[str, str] = {}
        for message in rl.history.load(info.id).messages:
            for call in message.get("tool_calls") or ():
                asked[call["id"]] = call["function"]["arguments"]
            result = str(message.get("content")) if message.get("role") == "tool" else ""
            if result.startswith("did ") and result[len("did ") :] not in asked.get(message["tool_call_id"], result):
                wrong.append(f"{info.id}: {asked[message['tool_call_id']]} got {result}")
    return wrong


def main(store: str, seed: str, taken: str, acts: int) -> None:
    """One life over a real store; the outside is a file of one appended line an effect."""

    def was_taken(key: str) -> bool:
        return os.path.exists(taken) and f"{key}\n" in open(taken, encoding="utf-8").read()

    with relight.open(store) as rl:
        if rl.sessions.find("main") is None:
            with rl.session("main") as s:
                s.append({"role": "user", "content": "go"})
        History(rl, Random(seed), lambda key: write_line(taken, key), was_taken).play(acts)


__all__ = ["History", "RelightError", "forgotten", "main", "misattributed"]
