"""Adapter for any other program: its command is started unchanged, and it has no transcript."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from relight.errors import UsageError
from relight.ports.agent import (
    Ask,
    Begun,
    Capabilities,
    Decision,
    Heard,
    Launch,
    Line,
    NativeCall,
    NativeResult,
    OwnCost,
    Surroundings,
    Transcript,
)
from relight.values.call import Effect


class Command:
    """A program that is not a known coding agent."""

    name = "command"
    provider: str | None = None
    capabilities = Capabilities()
    dialect = None
    subagents = None
    install_hint = "install the program, or give its full path"
    secrets: tuple[str, ...] = ()

    def configured_secrets(self, surroundings: Surroundings) -> tuple[str, ...]:
        return ()

    def recognises(self, command: Sequence[str]) -> bool:
        return bool(command)

    def task_of(self, command: Sequence[str]) -> str | None:
        return None

    def native_id_of(self, command: Sequence[str]) -> str | None:
        return None

    def model_of(self, command: Sequence[str], surroundings: Surroundings) -> str | None:
        return None

    def own_cost(self, line: Line) -> OwnCost | None:
        return None

    def new_id(self) -> str | None:
        return None

    def launch(self, ask: Ask) -> Launch:
        if not ask.command:
            raise UsageError("there is no command to start")
        return Launch(command=ask.command, prompt_sent=ask.prompt is None)

    def effect_of(self, tool: str, arguments: Any) -> Effect:
        return "once"

    def locate(self, native_id: str, surroundings: Surroundings) -> Path | None:
        return None

    def sessions(self, surroundings: Surroundings, *, since_us: int = 0) -> list[str]:
        return []

    def everywhere(self, surroundings: Surroundings, *, most: int) -> list[Begun]:
        return []

    def id_in_output(self, line: Line) -> str | None:
        return None

    def read(self, path: Path) -> Transcript:
        return Transcript(native_id="", path=path, entries=(), offset=0)

    def follow(self, path: Path) -> _Nothing:
        return _Nothing(path)

    def key(self, line: Line) -> str:
        return ""

    def hears(self, payload: Mapping[str, Any], surroundings: Surroundings) -> Heard | None:
        return None

    def decides(self, heard: Heard, decision: Decision, reason: str) -> Mapping[str, Any] | None:
        return None

    def pending(self, lines: Sequence[Line]) -> list[NativeCall]:
        return []

    def prompted(self, text: str, *, at_us: int) -> Line:
        _has_none()

    def asked(self, call: NativeCall, lines: Sequence[Line], *, at_us: int) -> Line:
        _has_none()

    def answered(self, results: Mapping[str, NativeResult], lines: Sequence[Line], *, at_us: int) -> list[Line]:
        return []

    def write(self, lines: Iterable[Line], native_id: str, surroundings: Surroundings) -> Path:
        _has_none()

    def keep(self, path: Path, copy: Path, clean: Callable[[str], str]) -> None:
        return

    def append(self, path: Path, lines: Sequence[Line], *, offset: int) -> None:
        _has_none()


def _has_none() -> NoReturn:
    raise UsageError("a plain command has no transcript to write")


class _Nothing:
    """Follower of a program without a transcript."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Transcript:
        return Transcript(native_id="", path=self._path, entries=(), offset=0)
