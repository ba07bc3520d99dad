"""Any order of verbs, crashes in between: the library agrees with a model that has no journal, store or codec.

The model of a session is a list of replies and messages, a state, a table of effects, and a copy of all that for each
checkpoint. Whatever is done, the open session, a fresh load and every earlier checkpoint say what the model says.

Effects are no part of those copies: they belong to the session's life. What became of a call, or of a `once` key, stays
known whatever is rewound, and a fork runs nothing that was asked for before it.
"""

from __future__ import annotations

import shutil
import tempfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from relight.errors import InDoubt
from relight.sessions.session import Session
from relight.testing.conversation import lint
from relight.values.call import NOT_RUN, NOT_RUN_HERE, OUTCOME_UNKNOWN
from tests.support.simulation import Simulation

WORDS = st.sampled_from(["go", "on", "", "☃", "\ud800", "x" * 300])
KEYS = st.sampled_from(["a", "b", "c"])


class Died(BaseException):
    """The process ends inside a tool."""


class Model:
    """A session without a journal."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.state: dict[str, Any] = {}
        self.once: dict[str, Any] = {}
        """result by key; None while in doubt; over the whole life"""
        self.parents: dict[str, Any] = {}
        """of a fork: what its parent knew about keys of its own; it holds where the parent's step is in view"""
        self.borrowed: set[str] = set()
        """keys of `once` that are known from there alone"""
        self.shown: set[str] = set()
        """keys of `once` that are told in view"""
        self.calls: dict[str, Any] = {}
        """the same of calls, by id, as far as they began"""
        self.asked: set[str] = set()
        self.belong: dict[str, str] = {}
        """calls asked for by an ancestor: its id"""
        self.begins = 0
        """the checkpoint of the parent that it was forked from"""
        self.retried: set[str] = set()
        """keys of its own effects in doubt that may run again"""
        self.partial: Any = None
        self.past: dict[int, Any] = {}
        self.labels: dict[str, int] = {}

    def copy(self) -> Any:
        return deepcopy((self.entries, self.state, self.partial, self.shown))

    def note(self, seq: int) -> None:
        self.past[seq] = self.copy()

    def go_to(self, seq: int) -> None:
        self.entries, self.state, self.partial, self.shown = deepcopy(self.past[seq])
        for key in [key for key in self.borrowed if key not in self.shown]:
            self.borrowed.remove(key)
            del self.once[key]
        # What is in view after our own beginning is our effect, and where that may run again, not the parent's either.
        own = self.retried if seq > self.begins else set()
        for key in self.shown & self.parents.keys() - self.once.keys() - own:
            self.borrowed.add(key)
            self.once[key] = self.parents[key]

    @staticmethod
    def render(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found = []
        for entry in entries:
            found.append(entry["message"])
            for call in entry["calls"]:
                if call["result"] is not None:
                    found.append({"role": "tool", "tool_call_id": call["id"], "content": call["result"]})
        return found

    def open_calls(self) -> list[dict[str, Any]]:
        return [call for entry in self.entries for call in entry["calls"] if call["result"] is None]

    def say(self, message: dict[str, Any]) -> None:
        if message["role"] == "assistant":
            for call in self.open_calls():
                call["result"] = self.known(call["id"]) or f"[error] {NOT_RUN}"
        calls = [{"id": c["id"], "result": None} for c in message.get("tool_calls", ())]
        self.entries.append({"message": message, "calls": calls})
        self.asked |= {call["id"] for call in calls}

    def known(self, call: str) -> str | None:
        """What is said of a call without running it; None where it may run."""
        if self.calls.get(call) is not None:
            return str(self.calls[call])
        if call in self.belong:
            return f"{NOT_RUN_HERE}{self.belong[call]}"
        return OUTCOME_UNKNOWN if call in self.calls else None

    def is_in_doubt(self, call: str) -> bool:
        return call in self.calls and self.calls[call] is None

    def forked(self, parent: str, seq: int) -> Model:
        """A life of its own, that begins at a checkpoint. Call ids are unique here, so a key is told by its call."""
        made = Model()
        made.past = {past: copy for past, copy in self.past.items() if past <= seq}
        made.labels = {label: at for label, at in self.labels.items() if at <= seq}
        made.go_to(seq)
        made.calls = dict(self.calls)
        # At a checkpoint of an ancestor the effect in view is the ancestor's, whatever we did under the same key.
        known = {**self.parents, **self.once} if seq > self.begins else {**self.once, **self.parents}
        # What is shown after our own beginning is our effect, retried or not, never an ancestor's of the same key.
        retried = self.retried if seq > self.begins else set()
        made.once = {key: None if key in retried - self.once.keys() else known.get(key) for key in made.shown}
        made.begins = seq
        made.parents = {key: result for key, result in known.items() if key not in made.shown}
        made.belong = {**dict.fromkeys(self.asked, parent), **self.belong}
        return made


class Machine(RuleBasedStateMachine):
    """One session at a time; forks become the one that is driven."""

    on_disk = False

    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp()) if self.on_disk else None
        self.world = Simulation(self.directory / "relight.db" if self.directory else None)
        self.rl = self.world.start()
        self.models: dict[str, Model] = {}
        self.asked = 0
        self.s: Session | None = None
        self.open_session("main")

    def open_session(self, name: str) -> None:
        self.s = self.rl.session(name)
        self.model = self.models.setdefault(self.s.id, Model())
        self.note()

    def note(self) -> None:
        assert self.s is not None
        self.model.note(self.s._recorder.head.seq)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            for session, model in self.models.items():
                for seq, (entries, state, partial, _) in model.past.items():
                    loaded = self.rl.history.load(f"{session}@{seq}")
                    assert loaded.messages == Model.render(entries)
                    assert (loaded.state, loaded.partial) == (state, partial)
                for label, seq in model.labels.items():
                    assert self.rl.history.load(f"{session}@{label}").seq == seq
            assert self.rl.history.verify().ok
            assert self.rl.store.check() == []
        finally:
            self.world.close()
            if self.directory:
                shutil.rmtree(self.directory)

    # -- saying something -----------------------------------------------------------------------------------------

    @rule(text=WORDS)
    def user_speaks(self, text: str) -> None:
        self._append({"role": "user", "content": text})

    @rule(text=WORDS)
    def model_speaks(self, text: str) -> None:
        self._append({"role": "assistant", "content": text})

    @rule(count=st.integers(1, 4))
    def model_calls(self, count: int) -> None:
        self._append(self._asking(count))

    def _asking(self, count: int) -> dict[str, Any]:
        self.asked += 1
        function = {"name": "t", "arguments": "{}"}
        calls = [{"id": f"c{self.asked}-{n}", "type": "function", "function": function} for n in range(count)]
        return {"role": "assistant", "content": None, "tool_calls": calls}

    def _append(self, message: dict[str, Any]) -> None:
        assert self.s is not None
        checkpoint = self.s.append(deepcopy(message), {"input_tokens": 1})
        assert checkpoint is not None
        self.model.say(message)
        self.note()
        assert checkpoint.message_count == len(Model.render(self.model.entries))

    @rule(words=st.lists(WORDS, max_size=3), key=KEYS, raises=st.booleans())
    def several_as_one_step(self, words: list[str], key: str, raises: bool) -> None:
        assert self.s is not None
        before = self.s._recorder.head.seq
        try:
            with self.s.batch():
                for word in words:
                    self.s.append({"role": "user", "content": word})
                self.s.state[key] = words
                if raises:
                    raise ValueError
        except ValueError:
            assert self.s._recorder.head.seq == before
            return
        for word in words:
            self.model.say({"role": "user", "content": word})
        self.model.state[key] = words
        assert self.s._recorder.head.seq == before + 1
        self.note()

    # -- calls and effects ----------------------------------------------------------------------------------------

    @precondition(lambda self: self.model.open_calls())
    @rule(data=st.data(), dies=st.booleans())
    def run_a_call(self, data: st.DataObject, dies: bool) -> None:
        assert self.s is not None
        calls = self.s.pending_calls()
        expected = self.model.open_calls()
        said = [(call["id"], self.model.is_in_doubt(call["id"])) for call in expected]
        assert [(call.id, call.in_doubt) for call in calls] == said
        index = data.draw(st.integers(0, len(calls) - 1))

        asked = expected[index]["id"]
        known = self.model.known(asked)

        def t() -> str:
            assert known is None, "ran twice"
            if dies:
                raise Died
            return f"did {asked}"

        try:
            self.s.run_tool(calls[index], {"t": t})
            expected[index]["result"] = known or f"did {asked}"
            if known is None:
                self.model.calls[asked] = f"did {asked}"
            self.note()
        except Died:
            self.model.calls[asked] = None
            self.note()
            self.crash()

    @rule(key=KEYS, dies=st.booleans())
    def do_once(self, key: str, dies: bool) -> None:
        assert self.s is not None
        known = key in self.model.once

        def act() -> str:
            assert not known, "ran twice"
            if dies:
                raise Died
            return f"did {key}"

        try:
            assert self.s.once(key, act) == f"did {key}"
            assert not known or self.model.once[key] is not None
            self.model.once[key] = f"did {key}"
            self.model.shown.add(key)
            self.note()
        except InDoubt:
            assert known and self.model.once[key] is None
        except Died:
            self.model.once[key] = None
            self.model.shown.add(key)
            self.note()
            self.crash()

    @precondition(lambda self: any(result is None for result in self.model.once.values()))
    @rule(retry=st.booleans())
    def settle_once(self, retry: bool) -> None:
        assert self.s is not None
        key = next(key for key, result in self.model.once.items() if result is None)
        self.model.borrowed.discard(key)
        self.s.settle(key, None if retry else f"did {key}", retry=retry)
        if retry:
            del self.model.once[key]
            self.model.shown.discard(key)
            self.model.retried.add(key)
        else:
            self.model.once[key] = f"did {key}"
            self.model.shown.add(key)
        self.note()

    # -- state ----------------------------------------------------------------------------------------------------

    @rule(key=KEYS, value=st.integers() | WORDS | st.lists(st.integers(), max_size=3))
    def set_state(self, key: str, value: Any) -> None:
        assert self.s is not None
        self.s.state[key] = value
        self.model.state[key] = value
        self.s.checkpoint()
        self.note()

    @precondition(lambda self: self.model.state)
    @rule(data=st.data())
    def unset_state(self, data: st.DataObject) -> None:
        assert self.s is not None
        key = data.draw(st.sampled_from(sorted(self.model.state)))
        del self.s.state[key]
        del self.model.state[key]
        self.s.checkpoint()
        self.note()

    @precondition(lambda self: any(isinstance(value, list) for value in self.model.state.values()))
    @rule()
    def change_state_in_place(self) -> None:
        assert self.s is not None
        key = next(key for key, value in self.model.state.items() if isinstance(value, list))
        self.s.state[key].append(7)
        self.model.state[key] = [*self.model.state[key], 7]
        self.s.checkpoint()
        self.note()

    @rule(value=WORDS)
    def tell_a_partial_result(self, value: str) -> None:
        assert self.s is not None
        self.s.partial(value)
        self.model.partial = value
        self.note()

    @rule(label=st.sampled_from(["good", "bad"]))
    def label(self, label: str) -> None:
        assert self.s is not None
        self.model.labels[label] = self.s.checkpoint(label).seq
        self.note()

    # -- the journal's own verbs ------------------------------------------------------------------------------------

    @rule(keep=st.integers(0, 3))
    def compact(self, keep: int) -> None:
        assert self.s is not None
        kept = self.model.entries[max(0, len(self.model.entries) - keep) :]
        self.s.replace([{"role": "user", "content": "so far"}, *Model.render(kept)])
        self.model.entries = [{"message": {"role": "user", "content": "so far"}, "calls": []}, *kept]
        self.model.shown |= self.model.once.keys()
        self.note()

    @rule()
    def crash(self) -> None:
        assert self.s is not None
        name = self.s.id
        self.rl = self.world.restart()
        self.open_session(name)

    @rule()
    def leave_and_come_back(self) -> None:
        assert self.s is not None
        self.s.close()
        self.open_session(self.s.id)

    @rule()
    def finish_and_go_on(self) -> None:
        assert self.s is not None
        self.s.complete("result")
        self.note()
        self.rl.runs.send(self.s.id, "more")
        self.model.say({"role": "user", "content": "more"})
        self.open_session(self.s.id)

    @rule(data=st.data())
    def rewind(self, data: st.DataObject) -> None:
        assert self.s is not None
        self.s.close()
        seq = data.draw(st.sampled_from(sorted(self.model.past)))
        self.rl.history.rewind(f"{self.s.id}@{seq}")
        self.model.go_to(seq)
        self.open_session(self.s.id)

    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        assert self.s is not None
        self.s.close()
        seq = data.draw(st.sampled_from(sorted(self.model.past)))
        made = self.rl.history.fork(f"{self.s.id}@{seq}")
        self.models[made.id] = self.model.forked(self.s.name or self.s.id, seq)
        self.open_session(made.id)

    # -- what must always hold --------------------------------------------------------------------------------------

    @invariant()
    def everyone_says_the_same(self) -> None:
        s = getattr(self, "s", None)
        if s is None:
            return
        wanted = Model.render(self.model.entries)
        loaded = self.rl.history.load(s.id)
        assert s.messages == loaded.messages == wanted
        assert dict(s.state) == loaded.state == self.model.state
        assert s.partial_result == loaded.partial == self.model.partial
        info = self.rl.sessions.get(s.id)
        assert info.message_count == len(wanted)
        assert info.turns == sum(entry["message"]["role"] == "assistant" for entry in self.model.entries)
        started = sum(self.model.is_in_doubt(call["id"]) for call in self.model.open_calls())
        begun = sum(result is None for result in self.model.once.values())
        assert len(s._recorder.head.open) == started + begun
        if not self.model.open_calls():
            assert lint(s.messages) == []


class MachineOnDisk(Machine):
    """The same over SQLite."""

    on_disk = True


@pytest.mark.parametrize("machine", [Machine, MachineOnDisk], ids=["memory", "sqlite"])
def test_the_library_agrees_with_a_model_without_a_journal(machine: Any, sample: Any) -> None:
    examples = sample(40 if machine is Machine else 15, proof=3_000, teeth=40)
    rules = settings(max_examples=examples, stateful_step_count=30, deadline=None)
    run_state_machine_as_test(machine, settings=rules)
