"""Adapter for any other program: its command is started unchanged, and it has no transcript."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from relight.agents.native.defaults import Defaults
from relight.errors import UsageError
from relight.ports.agent import (
    Ask,
    Begun,
    Capabilities,
    Follower,
    Launch,
    Line,
    NativeCall,
    NativeResult,
    Surroundings,
    Transcript,
)


class Command(Defaults):
    """A program that is not a known coding agent."""

    name = "command"
    capabilities = Capabilities()
    install_hint = "install the program, or give its full path"

    def recognises(self, command: Sequence[str]) -> bool:
        return bool(command)

    def task_of(self, command: Sequence[str]) -> str | None:
        return None

    def native_id_of(self, command: Sequence[str]) -> str | None:
        return None

    def model_of(self, command: Sequence[str], surroundings: Surroundings) -> str | None:
        return None

    def new_id(self) -> str | None:
        return None

    def launch(self, ask: Ask) -> Launch:
        if not ask.command:
            raise UsageError("there is no command to start")
        return Launch(command=ask.command, prompt_sent=ask.prompt is None)

    def locate(self, native_id: str, surroundings: Surroundings) -> Path | None:
        return None

    def sessions(self, surroundings: Surroundings, *, since_us: int = 0) -> list[str]:
        return []

    def everywhere(self, surroundings: Surroundings, *, most: int) -> list[Begun]:
        return []

    def id_in_output(self, line: Line) -> str | None:
        return None

    def follow(self, path: Path) -> Follower:
        return _Nothing(path)

    def key(self, line: Line) -> str:
        return ""

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
