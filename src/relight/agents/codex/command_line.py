"""Command lines of Codex: `codex exec` is headless, `codex` draws a screen; both have a `resume`.

`exec resume` does not accept every flag of `exec`; those go between `exec` and `resume`. The user's
flags are passed on, except those that choose a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from relight.agents.codex import hooks
from relight.agents.native import argv
from relight.agents.native.names import checked_id
from relight.agents.native.program import GO_ON, Program, parsed, understood, with_native_binary
from relight.ports.agent import Ask, Launch

PROGRAM: Final = Program(name="codex", package="@openai/codex", native=("vendor/*/bin/codex", "vendor/*/codex/codex"))

_GRAMMAR: Final = argv.Grammar(
    one=argv.names(
        "--config --enable --disable --remote --remote-auth-token-env --model --local-provider --profile --sandbox --cd"
        " --add-dir --ask-for-approval --thread-source --cyber-access-program --output-schema --color"
        " --output-last-message"
    ),
    many=argv.names("--image"),
    bare=argv.names(
        "--strict-config --oss --approve-for-me --full-auto --yolo --dangerously-bypass-approvals-and-sandbox"
        " --dangerously-bypass-hook-trust --worktree --search --no-alt-screen --no-daemon --help --version"
        " --skip-git-repo-check --ephemeral --ignore-user-config --ignore-rules --json --experimental-json --last --all"
        " --include-non-interactive"
    ),
    short={
        "c": "--config",
        "i": "--image",
        "m": "--model",
        "p": "--profile",
        "s": "--sandbox",
        "C": "--cd",
        "a": "--ask-for-approval",
        "o": "--output-last-message",
        "h": "--help",
        "V": "--version",
    },
    words=3,
)
_CHOOSING: Final = ("--last", "--all", "--include-non-interactive", "--worktree", "--image")
"""flags that choose a thread, or belong to the first prompt"""
_ELSEWHERE: Final = ("--help", "--version", "--ephemeral", "--remote")
_EXEC: Final = ("exec", "e")
_GOING_ON: Final = ("resume", "fork")
_COMMANDS: Final = argv.names(
    "agents review login logout mcp mcp-server plugin app-server app remote-control completion update doctor sandbox"
    " debug apply a queue archive delete migrate-rollouts migrate-nfs-db unarchive cloud cloud-tasks exec-server"
    " features help execpolicy responses-api-proxy stdio-to-uds"
)


class Understood(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed command line of Codex."""

    start: tuple[str, ...]
    line: argv.CommandLine
    headless: bool
    verb: str
    """resume, fork, or nothing"""
    named: str | None
    """the thread that it resumes or forks"""
    prompt: str | None

    @property
    def flags(self) -> argv.CommandLine:
        return self.line.without_words()


def understand(command: Sequence[str]) -> Understood | None:
    """Parse a command; None if it does not run a session of Codex."""
    found = parsed(command, PROGRAM, _GRAMMAR)
    if found is None:
        return None
    start, line = found
    words = list(line.words())
    headless = bool(words) and words[0] in _EXEC
    if headless:
        words.pop(0)
    elif words and words[0] in _COMMANDS:
        return None
    if line.has(*_ELSEWHERE) or (headless and words and words[0] in ("review", "help")):
        return None
    verb = words.pop(0) if words and words[0] in _GOING_ON else ""
    named = words.pop(0) if verb and words and not line.has("--last") else None
    prompt = words[-1] if words and words[-1] != "-" else None
    return Understood(start=start, line=line, headless=headless, verb=verb, named=named, prompt=prompt)


def launch(ask: Ask) -> Launch:
    """The process to start for a request; see `AgentAdapter.launch`."""
    found = understood(understand, ask, "Codex")
    ours = hooks.arguments(ask.hooks, found.line) if ask.hooks is not None else ()
    started = with_native_binary(found.start, PROGRAM, ask.surroundings)
    start = (*started, *(() if found.headless else _alone(found.line)))
    if ask.rung == "fresh" and ask.prompt is None:
        command = _joined(start, ours, found.line.arguments(), headless=found.headless)
        return Launch(command=command, prompt_sent=found.prompt is not None, headless=found.headless)
    prompt = ask.prompt
    if ask.rung == "native" and prompt is None and (found.headless or ask.unfinished):
        prompt = GO_ON
    flags = found.flags.without(*_CHOOSING) if ask.rung != "fresh" else found.flags
    words = ["exec"] if found.headless else []
    tail = [prompt] if prompt is not None else []
    command = (*start, *words, *ours, *flags.arguments())
    if ask.rung == "native":
        command = (*command, "resume", "--", checked_id(ask.native_id or ""), *tail)
    elif tail:
        command = (*command, "--", *tail)
    return Launch(command=command, prompt_sent=prompt is not None, headless=found.headless)


def _joined(
    start: tuple[str, ...], ours: tuple[str, ...], given: tuple[str, ...], *, headless: bool
) -> tuple[str, ...]:
    """The user's command with our flags inserted: after `exec`, if there is one."""
    if not ours:
        return (*start, *given)
    at = next((index for index, word in enumerate(given) if word in _EXEC), -1) + 1 if headless else 0
    return (*start, *given[:at], *ours, *given[at:])


def _alone(line: argv.CommandLine) -> tuple[str, ...]:
    # With a screen, Codex is by default a front end of one daemon per user, which has the environment of the session
    # that started it. If we killed the front end its turn would continue, and the daemon would look like our orphan.
    return () if line.has("--no-daemon") else ("--no-daemon",)
