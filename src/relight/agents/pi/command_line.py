"""Command lines of pi: `pi -p` and `pi --mode json` are headless, `pi` draws a screen.

pi has no `--` before its prompts: a prompt that begins with a dash would be read as a flag, one that begins with @ as a
file. Such a prompt gets a space before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from relight.agents.native import argv
from relight.agents.native.names import checked_id
from relight.agents.native.program import GO_ON, Program, parsed, understood
from relight.agents.pi.extension import with_extension
from relight.ports.agent import Ask, Launch

PROGRAM: Final = Program(name="pi", package="@mariozechner/pi-coding-agent", native=())
_GRAMMAR: Final = argv.Grammar(
    one=argv.names(
        "--mode --provider --model --api-key --system-prompt --append-system-prompt --session --fork --session-dir"
        " --models --tools --thinking --export --extension --skill --prompt-template --theme"
    ),
    maybe=argv.names("--list-models"),
    bare=argv.names(
        "--continue --resume --no-session --no-tools --no-builtin-tools --print --no-extensions --no-skills"
        " --no-prompt-templates --no-themes --no-context-files --verbose --offline --help --version"
        " -nt -nbt -ne -ns -np -nc"
    ),
    short={
        "c": "--continue",
        "r": "--resume",
        "p": "--print",
        "t": "--tools",
        "e": "--extension",
        "h": "--help",
        "v": "--version",
    },
    words=0,  # the word after an unknown flag is its value: an extension's
)
_CHOOSING: Final = ("--continue", "--resume", "--session", "--fork")
_ELSEWHERE: Final = ("--help", "--version", "--export", "--list-models", "--no-session", "--session-dir")
"""flags with which it runs no session, or none that is found in its own directory"""
_COMMANDS: Final = argv.names("install remove uninstall update list config")


class Understood(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed command line of pi."""

    start: tuple[str, ...]
    line: argv.CommandLine
    headless: bool

    @property
    def prompt(self) -> str | None:
        return next((word for word in self.line.words() if not word.startswith("@")), None)


def understand(command: Sequence[str]) -> Understood | None:
    """Parse a command; None if it does not run a session of pi."""
    found = parsed(command, PROGRAM, _GRAMMAR)
    if found is None:
        return None
    start, line = found
    words, mode = line.words(), line.value("--mode")
    if line.has(*_ELSEWHERE) or mode == "rpc" or (words and words[0] in _COMMANDS):
        return None
    return Understood(start=start, line=line, headless=line.has("--print") or mode == "json")


def launch(ask: Ask) -> Launch:
    """The process to start for a request; see `AgentAdapter.launch`."""
    found = understood(understand, ask, "pi")
    return with_extension(_launch(ask, found), ask.hooks, len(found.start))


def _launch(ask: Ask, found: Understood) -> Launch:
    if ask.rung == "fresh" and ask.prompt is None:
        given = (*found.start, *found.line.arguments())
        return Launch(command=given, prompt_sent=found.prompt is not None, headless=found.headless)
    prompt = ask.prompt
    if ask.rung == "native" and prompt is None and (found.headless or ask.unfinished):
        prompt = GO_ON
    flags = found.line.without_words()
    chosen: tuple[str, ...] = ()
    if ask.rung != "fresh":
        flags = flags.without(*_CHOOSING)
    if ask.rung == "native":
        chosen = ("--session", checked_id(ask.native_id or ""))
    tail = () if prompt is None else (f" {prompt}" if prompt.startswith(("-", "@")) else prompt,)
    command = (*found.start, *flags.arguments(), *chosen, *tail)
    return Launch(command=command, prompt_sent=prompt is not None, headless=found.headless)
