"""Command lines of Gemini CLI: with `--prompt` or an output for programs it is headless, else it draws a screen.

Its parser takes a value that begins with a dash for a flag: such a prompt gets a space before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from relight.agents.gemini import hooks
from relight.agents.native import argv
from relight.agents.native.names import checked_id
from relight.agents.native.program import GO_ON, Program, parsed, understood
from relight.ports.agent import Ask, Launch

PROGRAM: Final = Program(name="gemini", package="@google/gemini-cli", native=())
_GRAMMAR: Final = argv.Grammar(
    one=argv.names(
        "--model --prompt --prompt-interactive --approval-mode --policy --admin-policy --allowed-mcp-server-names"
        " --allowed-tools --extensions --session-file --session-id --delete-session --include-directories"
        " --output-format"
    ),
    maybe=argv.names("--resume --worktree"),
    bare=argv.names(
        "--debug --version --help --skip-trust --sandbox --yolo --acp --experimental-acp --list-extensions"
        " --list-sessions --screen-reader --raw-output --accept-raw-output-risk"
    ),
    short={
        "d": "--debug",
        "e": "--extensions",
        "h": "--help",
        "i": "--prompt-interactive",
        "l": "--list-extensions",
        "m": "--model",
        "o": "--output-format",
        "p": "--prompt",
        "r": "--resume",
        "s": "--sandbox",
        "v": "--version",
        "w": "--worktree",
        "y": "--yolo",
    },
    words=0,  # the word after an unknown flag is its value
)
_CHOOSING: Final = ("--resume", "--session-id", "--session-file")
_PROMPTS: Final = ("--prompt", "--prompt-interactive")
_ELSEWHERE: Final = (
    "--help",
    "--version",
    "--acp",
    "--experimental-acp",
    "--list-extensions",
    "--list-sessions",
    "--delete-session",
    "--sandbox",
    "--worktree",
)
"""flags with which it runs no session, or one in another place"""
_FOR_PROGRAMS: Final = ("json", "stream-json")
_COMMANDS: Final = argv.names("mcp extensions skills hooks gemma update")


class Understood(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed command line of Gemini CLI."""

    start: tuple[str, ...]
    line: argv.CommandLine

    @property
    def headless(self) -> bool:
        return self.line.has("--prompt") or self.line.value("--output-format") in _FOR_PROGRAMS

    @property
    def prompt(self) -> str | None:
        return self.line.value(*_PROMPTS) or " ".join(self.line.words()) or None


def understand(command: Sequence[str]) -> Understood | None:
    """Parse a command; None if it does not run a session of Gemini CLI."""
    found = parsed(command, PROGRAM, _GRAMMAR)
    if found is None:
        return None
    start, line = found
    if line.has(*_ELSEWHERE) or (line.words()[:1] and line.words()[0] in _COMMANDS):
        return None
    return Understood(start=start, line=line)


def named_id(command: Sequence[str]) -> str | None:
    """The native session that the command itself names, by any name."""
    found = understand(command)
    return found.line.value("--resume", "--session-id") if found is not None else None


def launch(ask: Ask) -> Launch:
    """The process to start for a request; see `AgentAdapter.launch`."""
    found = understood(understand, ask, "Gemini CLI")
    if ask.hooks is not None and ask.hooks.approve:
        hooks.refuse_silenced(found.line, ask.surroundings)
    line, chosen = found.line, tuple[str, ...]()
    if ask.rung == "native":
        chosen = ("--resume", checked_id(ask.native_id or ""))
    elif ask.native_id is not None and (ask.rung == "bootstrap" or not line.has(*_CHOOSING)):
        chosen = ("--session-id", checked_id(ask.native_id))
    if ask.rung != "fresh":
        line = line.without(*_CHOOSING)
    prompt = found.prompt if ask.rung == "fresh" and ask.prompt is None else ask.prompt
    if ask.rung == "fresh" and ask.prompt is None:
        arguments = (*chosen, *line.arguments())
    else:
        if ask.rung == "native" and prompt is None and (found.headless or ask.unfinished):
            prompt = GO_ON
        arguments = (*line.without_words().without(*_PROMPTS).arguments(), *chosen, *_asking(found, prompt))
    # It would start itself again as a child, which a kill of the parent leaves running.
    environment = {"GEMINI_CLI_NO_RELAUNCH": "true", **(hooks.environment(ask.hooks) if ask.hooks is not None else {})}
    return Launch(
        command=(*found.start, *arguments),
        environment=environment,
        files=hooks.files(ask.surroundings) if ask.hooks is not None else {},
        prompt_sent=prompt is not None,
        headless=found.headless,
    )


def _asking(found: Understood, prompt: str | None) -> tuple[str, ...]:
    if prompt is None:
        return ()
    flag = "--prompt" if found.headless else "--prompt-interactive"
    return (flag, f" {prompt}" if prompt.startswith("-") else prompt)
