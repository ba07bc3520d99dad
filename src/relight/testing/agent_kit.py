"""Conformance kit of the agent port: checks that every adapter has to pass.

    class Mine(AgentChecks):
        adapter = MyAgent()
        command = ("myagent", "--prompt", "do it")
        def conversation(self): return [...]  # lines as the agent writes them

    def test_mine(tmp_path):
        for check in Mine(tmp_path).checks():
            check()

No agent is started. Each check uses its own home below the given directory and raises AssertionError if the contract of
`relight.ports.agent` is violated. The conversation must have a prompt, a reply with at least two calls, their results,
and an end. An adapter without transcripts returns none.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from relight.errors import RelightError
from relight.ports.agent import AgentAdapter, Ask, Line, NativeCall, NativeResult, Rung, Surroundings, Transcript
from relight.testing.workspace_kit import picture

HOSTILE_IDS: Final = (
    "",
    ".",
    "..",
    "../../etc/passwd",
    "/etc/passwd",
    "-p",
    "--help",
    "a b",
    "x" * 300,
    "*",
    "00000000-0000-4000-8000-00000000000\n",
    "00000000-0000-4000-8000-000000000000/../x",
    "00000000-0000-4000-8000-000000000000\0",
    "0000000\u0660-0000-4000-8000-000000000000",
    "00000000-0000-4000-8000-00000000000G",
)
_PROMPTS: Final = ("go on", "--help", "-p", "a 'b' \"c\" $(d) `e`\n\nf", "-", "")
_AT_US: Final = 1_700_000_000_000_000


class AgentChecks(ABC):
    """Subclass it with an adapter, then run `checks()`."""

    adapter: ClassVar[AgentAdapter]
    command: ClassVar[tuple[str, ...]]
    """a command of this agent, with a prompt if it takes one"""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = 0

    @abstractmethod
    def conversation(self) -> Sequence[Line]:
        """Lines as the agent writes them; empty if it has no transcript."""

    def checks(self) -> Iterator[Callable[[], None]]:
        """All checks, as functions without arguments."""
        for name in sorted(dir(self)):
            if name.startswith("check_"):
                yield getattr(self, name)

    # -- starting ---------------------------------------------------------------------------------------------

    def check_it_recognises_its_command(self) -> None:
        assert self.adapter.recognises(self.command)
        assert not self.adapter.recognises(())

    def check_a_fresh_start_keeps_the_users_command(self) -> None:
        launch = self.adapter.launch(self._ask("fresh", native_id=self.adapter.new_id()))
        assert [word for word in self.command if word not in launch.command] == []

    def check_a_prompt_is_one_argument_and_the_last(self) -> None:
        if not self.adapter.capabilities.native_resume:
            return
        for prompt in _PROMPTS:
            launch = self.adapter.launch(self._ask("native", native_id=self._id(), prompt=prompt))
            # A space may set off what the agent's own parser would take for a flag.
            assert launch.command[-1].removeprefix(" ") == prompt
            assert launch.prompt_sent

    def check_a_resume_names_the_session_and_not_the_first_prompt(self) -> None:
        if not self.adapter.capabilities.native_resume:
            return
        name, task = self._id(), self.adapter.task_of(self.command)
        launch = self.adapter.launch(self._ask("native", native_id=name))
        assert launch.command.count(name) == 1
        assert task is not None
        assert task not in launch.command

    def check_an_id_that_is_none_starts_nothing(self) -> None:
        if not self.adapter.capabilities.native_resume:
            return
        for name in HOSTILE_IDS:
            _refuses(partial(self.adapter.launch, self._ask("native", native_id=name)))

    def check_an_unknown_tool_may_have_any_effect(self) -> None:
        assert self.adapter.effect_of("mcp__bank__transfer", {"amount": 1}) == "once"

    # -- reading ----------------------------------------------------------------------------------------------

    def check_reading_is_total(self) -> None:
        surroundings = self._home()
        for name, data in {
            "empty": b"",
            "words": b"no json",
            "list": b"[1]\n",
            "odd": b'{"type":7,"uuid":[]}\n',
        }.items():
            path = Path(surroundings.directory, name)
            path.write_bytes(data)
            found = self.adapter.read(path)
            assert found.entries == ()
            assert found.offset + len(found.torn) in (0, len(data))
        assert self.adapter.read(Path(surroundings.directory, "not-there")).entries == ()
        assert self.adapter.read(Path(surroundings.directory)).entries == ()

    def check_strange_lines_are_no_reason_to_fail(self) -> None:
        lines = list(self.conversation())
        for strange in ({}, {"type": "a-new-kind", "uuid": "u"}, {"type": "user", "message": 7}, {"payload": None}):
            surroundings, path = self._written(lines)
            if path is not None:
                path.write_bytes(_encode([*lines[:1], strange, *lines[1:]]))
                assert self.adapter.read(path).entries
            self.adapter.pending([strange])
            self.adapter.sessions(surroundings)
            self.adapter.everywhere(surroundings, most=50)

    # A crash can truncate a transcript anywhere. Every offset around the end of a line is tried, elsewhere a sample:
    # there an adapter decides whether the last line is whole.
    def check_a_cut_keeps_the_longest_valid_prefix(self) -> None:
        _, path = self._written(self.conversation())
        if path is None:
            return
        whole = self.adapter.read(path)
        data, ends = path.read_bytes(), _ends(path.read_bytes())
        near = {end + step for end in ends for step in (-1, 0, 1, 2)}
        for cut in sorted({*range(0, len(data), 13), *near} - {len(data) + 1}):
            path.write_bytes(data[:cut])
            found = self.adapter.read(path)
            held = max((end for end in ends if end <= cut), default=0)
            assert found.offset >= held, f"cut at {cut}: a whole line is not read"
            assert data[found.offset : cut] == found.torn
            assert _is_prefix(_keys(found), _keys(whole)), f"cut at {cut}: other lines than the first"

    def check_a_grown_transcript_is_followed(self) -> None:
        _, path = self._written(self.conversation())
        if path is None:
            return
        data, whole = path.read_bytes(), _keys(self.adapter.read(path))
        path.write_bytes(b"")
        follower = self.adapter.follow(path)
        for cut in (*range(0, len(data), 97), len(data)):
            path.write_bytes(data[:cut])
            assert _keys(follower.read()) == _keys(self.adapter.read(path))
        assert _keys(follower.read()) == whole
        path.write_bytes(data[: len(data) // 2])
        assert _keys(follower.read()) == _keys(self.adapter.read(path))

    def check_the_key_of_a_line_is_that_of_its_entry(self) -> None:
        _, path = self._written(self.conversation())
        for entry in self.adapter.read(path).entries if path else ():
            assert self.adapter.key(entry.line) == entry.key

    def check_no_line_looks_like_a_providers_message(self) -> None:
        # A conversation's format is told by its messages, and those with a role are a provider's.
        assert not [line for line in self.conversation() if "role" in line]

    # -- writing ----------------------------------------------------------------------------------------------

    def check_what_is_written_is_what_is_read(self) -> None:
        lines = self.conversation()
        surroundings, path = self._written(lines)
        assert (path is not None) == self.adapter.capabilities.transcript
        if path is None:
            return
        first = self.adapter.read(path)
        assert first.native_id in self.adapter.sessions(surroundings)
        begun = {one.native_id: one.directory for one in self.adapter.everywhere(surroundings, most=50)}
        assert os.path.realpath(begun[first.native_id]) == os.path.realpath(surroundings.directory)
        assert self.adapter.everywhere(surroundings, most=0) == []
        assert self.adapter.locate(first.native_id, surroundings) == path
        elsewhere, name = self._home(), self._id()
        again = self.adapter.write([entry.line for entry in first.entries], name, elsewhere)
        second = self.adapter.read(again)
        assert (_keys(second), second.native_id, second.torn) == (_keys(first), name, b"")
        assert self.adapter.locate(name, surroundings) is None
        assert self.adapter.sessions(elsewhere) == [name]
        assert self.adapter.sessions(elsewhere, since_us=1 << 62) == []

    def check_every_prefix_is_a_session(self) -> None:
        surroundings, path = self._written(self.conversation())
        if path is None:
            return
        whole = self.adapter.read(path)
        for length in range(1, len(whole.entries) + 1):
            lines = [entry.line for entry in whole.entries[:length]]
            found = self.adapter.read(self.adapter.write(lines, self._id(), surroundings))
            assert _keys(found) == _keys(whole)[:length]

    def check_an_id_is_written_once(self) -> None:
        surroundings, path = self._written(self.conversation())
        if path is None:
            return
        before = picture(Path(surroundings.environment["HOME"]))
        _refuses(lambda: self.adapter.write(self.conversation(), self.adapter.read(path).native_id, surroundings))
        assert picture(Path(surroundings.environment["HOME"])) == before

    def check_a_hostile_id_reaches_no_path(self) -> None:
        surroundings, _ = self._written(self.conversation())
        before = picture(self._directory)
        for name in HOSTILE_IDS:
            assert self.adapter.locate(name, surroundings) is None
            _refuses(partial(self.adapter.write, self.conversation(), name, surroundings))
        assert picture(self._directory) == before

    def check_a_link_out_of_the_home_is_not_followed(self) -> None:
        surroundings, path = self._written(self.conversation())
        if path is None:
            return
        name, outside = self.adapter.read(path).native_id, Path(surroundings.directory, "outside.jsonl")
        os.replace(path, outside)
        path.symlink_to(outside)
        assert self.adapter.locate(name, surroundings) is None
        assert name not in self.adapter.sessions(surroundings)
        assert name not in {one.native_id for one in self.adapter.everywhere(surroundings, most=50)}
        kept = outside.read_bytes()
        _refuses(lambda: self.adapter.append(path, (), offset=0))
        assert outside.read_bytes() == kept

    def check_appending_cuts_the_tail_and_nothing_else(self) -> None:
        _, path = self._written(self.conversation())
        if path is None:
            return
        whole, data = self.adapter.read(path), path.read_bytes()
        for tail in (b"", b'{"torn', b"\xff\xfe garbage\n"):
            path.write_bytes(data + tail)
            self.adapter.append(path, (), offset=self.adapter.read(path).offset)
            assert path.read_bytes() == data
        path.write_bytes(data[:-1])
        self.adapter.append(path, (), offset=self.adapter.read(path).offset)
        assert path.read_bytes() == data
        _refuses(lambda: self.adapter.append(path, (), offset=len(data) + 1))
        assert _keys(self.adapter.read(path)) == _keys(whole)

    # -- repairing --------------------------------------------------------------------------------------------

    def check_open_calls_are_answered_once_and_in_order(self) -> None:
        _, path = self._written(self.conversation())
        if path is None:
            return
        lines = [entry.line for entry in self.adapter.read(path).entries]
        assert self.adapter.pending(lines) == []
        most = 0
        for length in range(1, len(lines) + 1):
            given = lines[:length]
            calls = self.adapter.pending(given)
            most = max(most, len(calls))
            results = {call.id: NativeResult(text=f"text of {call.id}") for call in calls}
            repair = self.adapter.answered({**results, "unknown": NativeResult(text="x")}, given, at_us=_AT_US)
            assert repair == self.adapter.answered(results, given, at_us=_AT_US)
            assert [self.adapter.key(line) for line in repair] == [f"result:{call.id}" for call in calls]
            assert self.adapter.pending([*given, *repair]) == []
            assert self.adapter.answered(results, [*given, *repair], at_us=_AT_US) == []
            for call, line in zip(calls, repair, strict=True):
                assert json.dumps(f"text of {call.id}") in json.dumps(line)
        assert most >= 2, "the conversation of this check has no reply with two calls"

    def check_repair_lines_are_read_back_after_what_they_follow(self) -> None:
        surroundings, path = self._written(self.conversation())
        if path is None:
            return
        whole = self.adapter.read(path)
        for length in range(1, len(whole.entries) + 1):
            lines = [entry.line for entry in whole.entries[:length]]
            calls = self.adapter.pending(lines)
            repair = self.adapter.answered({call.id: NativeResult(text="x") for call in calls}, lines, at_us=_AT_US)
            there = self.adapter.write(lines, self._id(), surroundings)
            self.adapter.append(there, repair, offset=self.adapter.read(there).offset)
            wanted = [*_keys(whole)[:length], *(f"result:{call.id}" for call in calls)]
            assert _keys(self.adapter.read(there)) == wanted

    def check_a_call_from_a_hook_is_asked_for(self) -> None:
        _, path = self._written(self.conversation())
        if path is None:
            return
        lines = [entry.line for entry in self.adapter.read(path).entries]
        for length in range(1, len(lines) + 1):
            given = lines[:length]
            call = NativeCall(id="call_hooked", name="Bash", arguments={"command": "true"})
            line = self.adapter.asked(call, given, at_us=_AT_US)
            assert line == self.adapter.asked(call, given, at_us=_AT_US)
            assert self.adapter.key(line) == "call:call_hooked"
            assert self.adapter.pending([*given, line]) == [*self.adapter.pending(given), call]

    # -- helpers ------------------------------------------------------------------------------------------------

    def _home(self) -> Surroundings:
        """An empty home and a working directory."""
        self._count += 1
        base = self._directory / f"check-{self._count}"
        (base / "home").mkdir(parents=True)
        (base / "work").mkdir()
        return Surroundings(directory=str(base / "work"), environment={"HOME": str(base / "home"), "PATH": ""})

    def _written(self, lines: Sequence[Line]) -> tuple[Surroundings, Path | None]:
        surroundings = self._home()
        if not self.adapter.capabilities.transcript:
            return surroundings, None
        return surroundings, self.adapter.write(lines, self._id(), surroundings)

    def _id(self) -> str:
        name = self.adapter.new_id()
        assert name is not None, "an adapter with transcripts makes ids for them"
        return name

    def _ask(self, rung: Rung, *, native_id: str | None, prompt: str | None = None) -> Ask:
        home = self._home()
        return Ask(command=self.command, surroundings=home, rung=rung, native_id=native_id, prompt=prompt)


def _refuses(act: Callable[[], Any]) -> None:
    try:
        act()
    except RelightError:
        return
    raise AssertionError("it was not refused")


def _keys(transcript: Transcript) -> list[str]:
    return [entry.key for entry in transcript.entries]


def _is_prefix(some: Sequence[str], whole: Sequence[str]) -> bool:
    return list(whole[: len(some)]) == list(some)


def _ends(data: bytes) -> list[int]:
    """Offset of the end of each line, without its newline."""
    return [offset for offset, byte in enumerate(data) if byte == ord("\n")]


def _encode(lines: Sequence[Line]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)
