"""Command lines of Claude Code: parses the user's, and builds the one that resumes the same work.

The user's flags are passed on, except those that choose a session. Ours come first, where no flag with several values
can swallow them; our prompt comes last, after `--`, so that it is a prompt whatever it begins with.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from relight.agents.native import argv, hook_events
from relight.agents.native.names import checked_id
from relight.agents.native.program import GO_ON, Program, parsed, understood, with_native_binary
from relight.errors import UsageError
from relight.ports.agent import Ask, Hooks, Launch, Surroundings

PROGRAM: Final = Program(
    name="claude", package="@anthropic-ai/claude-code", native=("claude", "bin/claude", "claude.exe")
)
EVENTS: Final = (
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PreCompact",
    "Stop",
    "SessionEnd",
)
GATES: Final = ("UserPromptSubmit",)
"""before a model call that no tool leads to"""

_GRAMMAR: Final = argv.Grammar(
    one=argv.names(
        "--agent --agents --append-system-prompt --append-system-prompt-file --autocompact --debug-file --effort"
        " --environment --fallback-model --input-format --json-schema --max-budget-usd --max-thinking-tokens"
        " --max-turns --model --name --output-format --output-style --permission-mode --permission-prompt-tool"
        " --permission-prompts --plugin-dir --plugin-url --remote-control-session-name-prefix --resume-session-at"
        " --session-id --setting-sources --settings --system-prompt --system-prompt-file"
        " --system-prompt-snapshot --thinking --thinking-display"
    ),
    many=argv.names(
        "--add-dir --allowedTools --allowed-tools --betas --disallowedTools --disallowed-tools --file --mcp-config"
        " --tools --channels"
    ),
    maybe=argv.names("--cloud --debug --from-pr --prompt-suggestions --remote-control --resume --teleport --worktree"),
    bare=argv.names(
        "--allow-dangerously-skip-permissions --ax-screen-reader --background --bare --bg --brief --chrome --continue"
        " --dangerously-skip-permissions --desktop --disable-slash-commands"
        " --exclude-dynamic-system-prompt-sections --fork-session --forward-subagent-text --help --ide"
        " --include-hook-events --include-partial-messages --no-chrome --no-session-persistence --print"
        " --replay-user-messages --restricted --safe-mode --strict-mcp-config --tmux --verbose --version"
    ),
    short={
        "c": "--continue",
        "d": "--debug",
        "h": "--help",
        "n": "--name",
        "p": "--print",
        "r": "--resume",
        "v": "--version",
        "w": "--worktree",
    },
)
_CHOOSING: Final = (
    "--session-id",
    "--resume",
    "--continue",
    "--fork-session",
    "--from-pr",
    "--resume-session-at",
    "--teleport",
    "--worktree",
)
_FED: Final = ("--input-format", "--replay-user-messages")
"""flags for prompts that come by stdin"""
_ELSEWHERE: Final = (
    "--help",
    "--version",
    "--background",
    "--bg",
    "--cloud",
    "--desktop",
    "--environment",
    "--teleport",
    "--no-session-persistence",
)
"""flags with which it holds no session here that could be resumed"""
_COMMANDS: Final = argv.names(
    "agents attach auth auto-mode config doctor gateway import install logs mcp migrate-installer plugin plugins purge"
    " remote-control respawn rm server setup-token stop ultrareview update upgrade"
)


class Understood(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed command line of Claude Code."""

    start: tuple[str, ...]
    """what starts the program"""
    line: argv.CommandLine

    @property
    def headless(self) -> bool:
        return self.line.has("--print")

    @property
    def prompt(self) -> str | None:
        return self.line.words()[-1] if self.line.words() else None

    @property
    def chooses(self) -> bool:
        return self.line.has(*_CHOOSING[:-1])


def understand(command: Sequence[str]) -> Understood | None:
    """Parse a command; None if it does not run a session of Claude Code."""
    found = parsed(command, PROGRAM, _GRAMMAR)
    if found is None:
        return None
    start, line = found
    words = line.words()
    if line.has(*_ELSEWHERE) or (words and words[0] in _COMMANDS):
        return None
    return Understood(start=start, line=line)


def named_id(command: Sequence[str]) -> str | None:
    """The native session id that the command itself names."""
    found = understand(command)
    if found is None:
        return None
    if found.line.has("--fork-session"):
        return found.line.value("--session-id")
    return found.line.value("--session-id") or found.line.value("--resume")


def launch(ask: Ask) -> Launch:
    """The process to start for a request; see `AgentAdapter.launch`."""
    found = understood(understand, ask, "Claude Code")
    line, ours = found.line, list[str]()
    prompt = found.prompt if ask.prompt is None else ask.prompt
    if ask.rung == "native":
        ours = ["--resume", checked_id(ask.native_id or "")]
        goes_on = (found.headless or ask.unfinished) and not ask.deferred
        prompt = (GO_ON if goes_on else None) if ask.prompt is None else ask.prompt
    elif ask.native_id is not None and (ask.rung == "bootstrap" or not found.chooses):
        ours = ["--session-id", checked_id(ask.native_id)]
    if ask.rung != "fresh":
        line = line.without(*_CHOOSING, *_FED)
    files = {}
    if ask.hooks is not None:
        settings = _settings(line.value("--settings"), ask.hooks, ask.surroundings)
        files[ask.hooks.file] = json.dumps(settings, indent=1, ensure_ascii=False).encode()
        line = line.without("--settings")
        ours += ["--settings", str(ask.hooks.file)]
    if ask.rung == "fresh" and ask.prompt is None:
        arguments = line.arguments()
    else:
        arguments = line.without_words().arguments() + (("--", prompt) if prompt is not None else ())
    command = (*with_native_binary(found.start, PROGRAM, ask.surroundings), *ours, *arguments)
    return Launch(command=command, files=files, prompt_sent=prompt is not None, headless=found.headless)


def _settings(given: str | None, hooks: Hooks, surroundings: Surroundings) -> dict[str, Any]:
    """The user's settings with our hooks appended to theirs."""
    settings = _read_settings(given, surroundings) if given else {}
    merged = {name: list(groups) for name, groups in settings.get("hooks", {}).items()}
    for event in (*EVENTS, *(GATES if hooks.gate else ())):
        seconds = hook_events.HOOK_SECONDS
        if hooks.approve and event == "PreToolUse":
            seconds = hook_events.HELD_SECONDS
        command = hook_events.guarded(hooks) if hooks.deny and event == "PreToolUse" else shlex.join(hooks.command)
        run = {"type": "command", "command": command, "timeout": seconds}
        merged.setdefault(event, []).append({"matcher": "*", "hooks": [run]})
    return {**settings, "hooks": merged}


def _read_settings(given: str, surroundings: Surroundings) -> dict[str, Any]:
    text = given
    if not given.lstrip().startswith("{"):
        try:
            with open(os.path.join(surroundings.directory, given), encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the settings of Claude Code cannot be read: {given}: {error}") from None
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--settings of Claude Code is not valid JSON: {error}") from None
    theirs: Any = found.get("hooks", {}) if isinstance(found, dict) else None
    if not isinstance(theirs, dict) or not all(isinstance(groups, list) for groups in theirs.values()):
        raise UsageError("--settings of Claude Code must be a JSON object, with lists of hooks by event")
    return found
