"""Which program a command starts: by name or through a launcher such as npx; and its native binary.

An agent installed by npm may be a script that starts the real program; killing the script would leave that running. If
the native binary is found beside the script it is started instead.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from relight.agents.native import argv
from relight.errors import UsageError
from relight.ports.agent import Ask, Surroundings

_T = TypeVar("_T")
_LAUNCHERS: Final[dict[str, tuple[str, ...]]] = {
    "npx": (),
    "bunx": (),
    "pnpx": (),
    "pnpm": ("dlx", "exec"),
    "npm": ("exec", "x"),
    "yarn": ("dlx",),
    "bun": ("x",),
}
"""launcher → its word for running a package, where it needs one"""
GO_ON: Final = "Continue where you stopped."
"""the prompt of a resume that was given none"""
_MACHINES: Final = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
_MAGIC: Final = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program's names, npm package and binary."""

    name: str
    package: str
    """its npm package"""
    native: tuple[str, ...]
    """where the binary lies in the package of a platform, as patterns"""


def split(command: Sequence[str], program: Program) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The words that start the program, and its arguments; None if the command starts something else."""
    if not command:
        return None
    called = Path(command[0]).name
    if called in (program.name, f"{program.name}.exe"):
        return (command[0],), tuple(command[1:])
    if called not in _LAUNCHERS:
        return None
    for index, word in enumerate(command[1:], 1):
        if word == "--" or word.startswith("-") or (index == 1 and word in _LAUNCHERS[called]):
            continue
        if re.sub(r"(?<=.)@[^/]*$", "", word) not in (program.name, program.package):
            return None
        stop = index + 2 if tuple(command[index + 1 : index + 2]) == ("--",) and called == "npm" else index + 1
        return tuple(command[:stop]), tuple(command[stop:])
    return None


def parsed(
    command: Sequence[str], program: Program, grammar: argv.Grammar
) -> tuple[tuple[str, ...], argv.CommandLine] | None:
    """The words that start the program, and its parsed arguments; None if the command starts something else, or has
    arguments that the program would refuse."""
    found = split(command, program)
    try:
        return (found[0], argv.parse(found[1], grammar)) if found is not None else None
    except UsageError:
        return None


def understood(understand: Callable[[Sequence[str]], _T | None], ask: Ask, agent: str) -> _T:
    """The parsed command of a request; UsageError if it does not run a session of this agent."""
    found = understand(ask.command)
    if found is None:
        raise UsageError(f"this command starts no session of {agent}: {shlex.join(ask.command)}")
    return found


def with_native_binary(start: tuple[str, ...], program: Program, surroundings: Surroundings) -> tuple[str, ...]:
    """The words that start the program, with the native binary in place of an npm script where one is found."""
    found = _which(start[0], surroundings) if len(start) == 1 else None
    if found is None or _is_native(found):
        return start
    scope, _, name = program.package.partition("/")
    for parent in found.parents:
        if parent.name == name and parent.parent.name == scope:
            for room in (parent.parent, parent / "node_modules" / scope):
                for binary in _binaries(room, name, program):
                    return (str(binary),)
    return start


def _which(word: str, surroundings: Surroundings) -> Path | None:
    given = os.path.join(surroundings.directory, word) if os.sep in word else word
    found = shutil.which(given, path=surroundings.environment.get("PATH"))
    return Path(found).resolve() if found else None


def _is_native(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) in _MAGIC
    except OSError:
        return False


def _binaries(room: Path, name: str, program: Program) -> list[Path]:
    system = f"{platform.system().lower()}-{_MACHINES.get(platform.machine().lower(), platform.machine().lower())}"
    packages = [room / f"{name}-{system}"]
    found = (binary for package in packages for pattern in program.native for binary in sorted(package.glob(pattern)))
    return [binary for binary in found if _is_native(binary) and os.access(binary, os.X_OK)]
