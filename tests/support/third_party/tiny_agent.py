"""A distribution of its own that adds an agent and a runtime to relight, as another project would.

The agent `tiny` writes `~/.tiny/ID.jsonl`: a first line about the session, then one line a message. The tests put this
module on the path with the metadata of a distribution (`tests/unit/system/test_entry_points.py`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from relight.agents.command import Command
from relight.agents.native import jsonl
from relight.agents.native.follower import FileFollower
from relight.agents.native.names import checked_id, home_of, inside, is_id, random_id, recent
from relight.journal.formats.format import CallSite, ProviderDict, ToolResult
from relight.ports.agent import (
    Ask,
    Begun,
    Capabilities,
    Entry,
    Launch,
    Line,
    NativeCall,
    NativeResult,
    Surroundings,
    Transcript,
)
from relight.ports.registration import Registration
from relight.ports.runtime import Runtime, RuntimeRequest
from relight.runtimes.process.runtime import ProcessRuntime
from relight.values.view import Message, Result, Text


class TinyFormat:
    """Lines {"tiny": id, "by": user | model | tool, "text", "calls", "of"}."""

    name = "tiny"
    native = True
    spans = False
    shares = False
    opens_with_user = False

    def recognises(self, message: ProviderDict) -> bool:
        return isinstance(message.get("tiny"), str)

    def is_assistant(self, message: ProviderDict) -> bool:
        return message.get("by") == "model"

    def calls(self, message: ProviderDict) -> tuple[CallSite, ...]:
        given = message.get("calls")
        return tuple(CallSite(**one) for one in given) if isinstance(given, list) else ()

    def answers(self, message: ProviderDict) -> tuple[str, ...]:
        return (message["of"],) if isinstance(message.get("of"), str) else ()

    def split(self, message: ProviderDict) -> tuple[list[tuple[str, ProviderDict]], ProviderDict | None]:
        answered = self.answers(message)
        return ([(name, message) for name in answered], None) if answered else ([], message)

    def join(self, fragments: Sequence[ProviderDict], carrier: ProviderDict | None) -> list[ProviderDict]:
        return list(fragments)

    def fragment(self, result: ToolResult) -> ProviderDict:
        return {"tiny": f"r-{result.call_id}", "by": "tool", "of": result.call_id, "text": str(result.content)}

    def render(self, results: Sequence[ToolResult]) -> list[ProviderDict]:
        return [self.fragment(result) for result in results]

    def faults(self, message: ProviderDict) -> list[str]:
        return []

    def read(self, messages: Sequence[ProviderDict]) -> list[Message]:
        return [self._message(line, index) for index, line in enumerate(messages)]

    def _message(self, line: ProviderDict, index: int) -> Message:
        said = (Text(text=str(line.get("text", ""))),)
        if answered := self.answers(line):
            return Message(role="tool", blocks=(Result(call=answered[0], text=said[0].text),), index=index)
        calls = tuple(site.view() for site in self.calls(line))
        role: Any = {"user": "user", "model": "assistant"}.get(str(line.get("by")), "system")
        return Message(role=role, blocks=(*said, *calls), index=index)

    def user(self, text: str) -> ProviderDict:
        return {"tiny": "u", "by": "user", "text": text}

    def assistant(self, text: str) -> ProviderDict:
        return {"tiny": "a", "by": "model", "text": text}


TINY_FORMAT = TinyFormat()


class Tiny(Command):
    """The adapter of `tiny PROMPT`, `tiny --session ID PROMPT`."""

    name = "tiny"
    capabilities = Capabilities(transcript=True, native_resume=True, chosen_id=True)
    keep = staticmethod(jsonl.keep)
    append = staticmethod(jsonl.append)

    def recognises(self, command: Sequence[str]) -> bool:
        return bool(command) and Path(command[0]).name == "tiny"

    def task_of(self, command: Sequence[str]) -> str | None:
        return command[-1] if len(command) > 1 else None

    def new_id(self) -> str:
        return random_id()

    def launch(self, ask: Ask) -> Launch:
        named = ("--session", checked_id(ask.native_id)) if ask.native_id is not None else ()
        prompt = ask.prompt if ask.prompt is not None else "go on" if ask.rung == "native" else ask.command[-1]
        return Launch(command=(ask.command[0], *named, prompt), prompt_sent=True)

    def _path(self, native_id: str, surroundings: Surroundings) -> Path:
        return home_of(surroundings.environment) / ".tiny" / f"{checked_id(native_id)}.jsonl"

    def locate(self, native_id: str, surroundings: Surroundings) -> Path | None:
        path = self._path(native_id, surroundings) if is_id(native_id) else None
        return inside(path, path.parent) if path is not None else None

    def everywhere(self, surroundings: Surroundings, *, most: int) -> list[Begun]:
        home = home_of(surroundings.environment) / ".tiny"
        found = [(at_us, path, (jsonl.first(path) or {}).get("cwd")) for at_us, path in recent(home, depth=0)]
        begun = [
            Begun(native_id=path.stem, directory=cwd, touched_us=at_us)
            for at_us, path, cwd in found
            if isinstance(cwd, str) and inside(path, home)
        ]
        return begun[:most]

    def sessions(self, surroundings: Surroundings, *, since_us: int = 0) -> list[str]:
        here = os.path.realpath(surroundings.directory)
        found = self.everywhere(surroundings, most=1000)
        return [one.native_id for one in found if one.directory == here and one.touched_us >= since_us]

    def read(self, path: Path) -> Transcript:
        return self.follow(path).read()

    def follow(self, path: Path) -> Any:
        def assembled(lines: Sequence[Line], offset: int, tail: bytes) -> Transcript:
            said = [line for line in lines if isinstance(line.get("tiny"), str)]
            entries = tuple(Entry(key=self.key(line), line=line, ends_turn=_ends(line)) for line in said)
            return Transcript(native_id=path.stem, path=path, entries=entries, offset=offset, torn=tail)

        return FileFollower(path, assembled)

    def key(self, line: Line) -> str:
        calls = [site.id for site in TINY_FORMAT.calls(line)]
        answered = TINY_FORMAT.answers(line)
        return f"call:{','.join(calls)}" if calls else f"result:{answered[0]}" if answered else f"line:{line['tiny']}"

    def pending(self, lines: Sequence[Line]) -> list[NativeCall]:
        answered = {name for line in lines for name in TINY_FORMAT.answers(line)}
        sites = [site for line in lines for site in TINY_FORMAT.calls(line) if site.id not in answered]
        return [NativeCall(id=site.id, name=site.name, arguments=site.arguments) for site in sites]

    def prompted(self, text: str, *, at_us: int) -> Line:
        return TINY_FORMAT.user(text)

    def asked(self, call: NativeCall, lines: Sequence[Line], *, at_us: int) -> Line:
        given = {"id": call.id, "name": call.name, "arguments": call.arguments}
        return {"tiny": f"c-{call.id}", "by": "model", "text": "", "calls": [given]}

    def answered(self, results: Mapping[str, NativeResult], lines: Sequence[Line], *, at_us: int) -> list[Line]:
        open_calls = [call for call in self.pending(lines) if call.id in results]
        return [TINY_FORMAT.fragment(ToolResult(call_id=call.id, content=results[call.id].text)) for call in open_calls]

    def write(self, lines: Iterable[Line], native_id: str, surroundings: Surroundings) -> Path:
        path = self._path(native_id, surroundings)
        head = {"cwd": os.path.realpath(surroundings.directory), "at": time.time()}
        jsonl.create(path, [head, *lines])
        return path


def _ends(line: Line) -> bool:
    return line.get("by") == "model" and not line.get("calls")


class TinyRuntime(ProcessRuntime):
    """A plain process under another name."""

    name = "tiny-runtime"


def make_runtime(request: RuntimeRequest) -> Runtime:
    """The runtime `tiny-runtime`."""
    unchanged: Callable[[str], str] = str
    return TinyRuntime(clean=unchanged)


AGENT = Registration(adapter="tiny_agent:Tiny", format="tiny_agent:TINY_FORMAT", programs=("tiny",), headless=("tiny",))
