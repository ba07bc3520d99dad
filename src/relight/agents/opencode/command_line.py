"""Command lines of opencode: `opencode run` is headless. Its screen and its server are programs like any other."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import msgspec

from relight.agents.native import argv
from relight.agents.native.program import GO_ON, Program, parsed, understood, with_native_binary
from relight.agents.opencode import database, plugin
from relight.ports.agent import Ask, Launch

PROGRAM: Final = Program(name="opencode", package="opencode-ai", native=("bin/opencode",))
_GRAMMAR: Final = argv.Grammar(
    one=argv.names(
        "--log-level --command --session --model --agent --format --title --attach --password --username --dir --port"
        " --variant"
    ),
    many=argv.names("--file"),
    bare=argv.names(
        "--help --version --print-logs --pure --continue --fork --share --thinking --interactive --auto"
        " --dangerously-skip-permissions"
    ),
    short={
        "h": "--help",
        "v": "--version",
        "c": "--continue",
        "s": "--session",
        "m": "--model",
        "f": "--file",
        "p": "--password",
        "u": "--username",
        "i": "--interactive",
    },
    words=99,
)
_CHOOSING: Final = ("--continue", "--session", "--fork", "--file", "--dir", "--title")
"""flags that choose a session, or belong to the first prompt"""
_ELSEWHERE: Final = ("--help", "--version", "--attach", "--interactive", "--command")
_IMPORT: Final = '"$1" import "$2" >&2 && shift 2 && exec "$@"'
"""the session is imported, then the same process becomes the agent; arguments are never part of the script"""


class Understood(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed command line of `opencode run`."""

    start: tuple[str, ...]
    line: argv.CommandLine

    @property
    def prompt(self) -> str | None:
        return " ".join(self.line.words()[1:]) or None


def understand(command: Sequence[str]) -> Understood | None:
    """Parse a command; None if it is not `opencode run` on this machine."""
    found = parsed(command, PROGRAM, _GRAMMAR)
    if found is None:
        return None
    start, line = found
    if line.words()[:1] != ("run",) or line.has(*_ELSEWHERE):
        return None
    return Understood(start=start, line=line)


def launch(ask: Ask) -> Launch:
    """The process to start for a request; see `AgentAdapter.launch`."""
    found = understood(understand, ask, "`opencode run`")
    return plugin.with_plugin(_launch(ask, found), ask.hooks, found.line, ask.surroundings)


def _launch(ask: Ask, found: Understood) -> Launch:
    start = with_native_binary(found.start, PROGRAM, ask.surroundings)
    if ask.rung == "fresh" and ask.prompt is None:
        return Launch(command=(*start, *found.line.arguments()), prompt_sent=found.prompt is not None)
    flags = found.line.without_words()
    flags = flags if ask.rung == "fresh" else flags.without(*_CHOOSING)
    prompt = ask.prompt if ask.prompt is not None else GO_ON
    # In another directory than the session's it would wait without end.
    chosen = (
        ("--session", database.checked_id(ask.native_id or ""), "--dir", _here(ask)) if ask.rung == "native" else ()
    )
    command = (*start, "run", *flags.arguments(), *chosen, "--", prompt)
    path = database.path_of(ask.native_id or "", ask.surroundings) if ask.rung == "native" else None
    if path is None or not path.is_file() or database.has(path):
        return Launch(command=command, prompt_sent=True)
    bundle = path.with_suffix(".json")
    importing = ("sh", "-c", _IMPORT, "sh", start[0], str(bundle), *command)
    return Launch(command=importing, files={bundle: database.exported(path)}, prompt_sent=True)


def _here(ask: Ask) -> str:
    return os.path.realpath(ask.surroundings.directory)
