"""Agent adapter: reads, writes and launches the native sessions of one kind of coding agent. Guarantees:

1. The journal of such a session contains the agent's own transcript lines, verbatim. From them the adapter can write a
   whole native session under another id, in another directory, in an empty home: so resume, fork, rewind and moving
   are one operation. The original file is used as long as it agrees with the journal.
2. Reading never raises: not for a torn tail, an unknown line or a missing file. An unreadable tail is returned in
   `Transcript.torn`, byte for byte.
3. Nothing is written outside of the agent's own home, whatever an id or a path says, and no existing line is changed:
   lines are appended, or a new file is created.
4. A prompt is passed as an argument of the started process.
5. A launch is a value. Adapters start nothing; the runtime does.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from relight.journal.conversion.dialect import Dialect
from relight.values.call import Effect
from relight.values.usage import Usage

Line = dict[str, Any]
"""one line of a native transcript, as the agent wrote it"""

Rung = Literal["native", "bootstrap", "fresh"]
"""how an attempt starts: by the agent's own resume, with a brief written from our journal, or fresh"""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What an adapter supports, as shown to users."""

    transcript: bool = False
    """its conversation can be read"""
    native_resume: bool = False
    chosen_id: bool = False
    """a session can be started under an id of our choice"""
    hooks: bool = False
    """it reports each tool call before and after it runs"""
    hooks_may_be_off: bool = False
    """its user can switch hooks off, so calls are taken from its transcript too, unless they need approval"""
    approvals: bool = False
    """a tool call can be made to wait for a person"""
    defers: bool = False
    """told to wait, it ends by itself, and asks its hook again when it is resumed; otherwise it is ended"""
    begins_together: bool = False
    """the calls of one reply begin when its hook has replied about all of them: while one is held, none runs"""
    nests: tuple[str, ...] = ()
    """tools that run calls of their own, which its hooks report like those of the reply: within one, no call is held"""
    reported: tuple[str, ...] = ("*",)
    """patterns of the tools whose calls its hooks report"""
    gate: bool = False
    """if there is a limit, it asks before each model call and waits for the reply"""
    interactive: bool = False
    """it has a screen of its own that text can be typed into"""

    @property
    def cannot(self) -> list[str]:
        """What it does not support, in words."""
        missing = {
            "report a tool call before it runs": self.hooks,
            "report calls of every tool before they run": self.reported == ("*",) or not self.hooks,
            "wait for an approval": self.approvals,
            "stop before the model call that would pass a budget": self.gate,
            "be typed to on a screen": self.interactive,
        }
        return [text for text, can in missing.items() if not can]

    def reports(self, tool: str) -> bool:
        """Whether its hooks report a call of this tool."""
        return any(fnmatchcase(tool, pattern) for pattern in self.reported)


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The directory and environment of an agent's process, which determine where its native files are."""

    directory: str
    """its working directory"""
    environment: Mapping[str, str]
    """its environment; HOME and the like say where its state is stored"""


class Hooks(msgspec.Struct, frozen=True, kw_only=True):
    """The hook configuration of one launch."""

    command: tuple[str, ...]
    """run with one JSON event on its stdin; its stdout is the reply"""
    file: Path
    """where a settings file for this session may be written; ours, not the user's"""
    approve: tuple[str, ...] = ()
    """patterns of tool calls that wait for a person"""
    deny: str = ""
    """the reply that denies a tool call, in the agent's own form, if calls need approval: the command's argument before
    a tool call, given if the call cannot be recorded and so cannot be approved"""
    gate: bool = False
    """there is a budget or token limit: ask before each event that leads to a model call"""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt is to do, given to `AgentAdapter.launch`."""

    command: tuple[str, ...]
    """as the user gave it to `relight run`, or as adopted"""
    surroundings: Surroundings
    rung: Rung
    native_id: str | None = None
    """native: the session to resume; fresh: the id to start under, if it can be chosen"""
    prompt: str | None = None
    """native: the next prompt (None: the adapter's own text for continuing); bootstrap: the brief;
    fresh: None for the prompt in the command"""
    unfinished: bool = False
    """native: a turn was interrupted, so an agent with a screen gets a prompt to continue; else it waits for its
    user"""
    deferred: bool = False
    """native: a waiting tool call was decided; no prompt is sent, the agent asks its hook again"""
    hooks: Hooks | None = None


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A process to start, and the files to write before it."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = {}
    """added to the surroundings' environment"""
    files: Mapping[Path, bytes] = {}
    """our own files, to be written first, readable by the user only"""
    prompt_sent: bool = False
    """whether the initial prompt is part of the command"""
    headless: bool = True
    """it prints lines and needs no terminal; otherwise it draws a screen"""


class NativeCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call without a result in the transcript."""

    id: str
    name: str
    arguments: Any = None


class NativeResult(msgspec.Struct, frozen=True, kw_only=True):
    """A result to write for a call that has none in the transcript."""

    text: str
    failed: bool = True


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One transcript line that is part of the conversation as the model sees it."""

    key: str
    """identity of the line across copies, redacted or not: the ids of its calls or results, else its own id"""
    line: Line
    usage: Usage | None = None
    """tokens that this line reports first"""
    model: str | None = None
    """the model that used them"""
    kept_long: int = 0
    """how many of the tokens written to the provider's cache stay there for an hour"""
    ends_turn: bool = False
    """the turn is over: the agent waits for the next prompt"""


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A native session and the directory it was begun in."""

    native_id: str
    directory: str
    touched_us: int


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """A native session as read from disk: the active branch since the last compaction, in conversation order, without
    bookkeeping lines that the agent does not need."""

    native_id: str
    path: Path
    entries: tuple[Entry, ...]
    offset: int
    """the end of the last whole line, in bytes"""
    torn: bytes = b""
    """an unfinished or unreadable tail after it"""
    model: str | None = None
    version: str | None = None


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """A hook event, parsed into the terms of all adapters."""

    kind: Literal["model_begins", "tool_begins", "tool_ended", "turn_ended", "session_began", "session_ended", "other"]
    native_id: str | None = None
    transcript: Path | None = None
    """the transcript's path as reported; None unless it is in the agent's own home"""
    call: str = ""
    tool: str = ""
    also: tuple[str, ...] = ()
    """what other agents call this tool: patterns for approvals may use these names"""
    arguments: Any = None
    """its whole input"""
    partial: bool = False
    """the arguments are not its whole input, so a person cannot be asked about it"""
    result: Any = None
    failed: bool = False
    subagent: str = ""
    """the id of the sub-agent that reported it, whose calls are not in the transcript; empty: the agent itself"""


class OwnCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost that an agent reports itself, for so many tokens, including helpers and side requests."""

    cost: float
    tokens: int


Decision = Literal["allow", "deny", "wait"]


class Follower(Protocol):
    """Incremental reader of a growing transcript."""

    def read(self) -> Transcript:
        """The present transcript. Lines read before are not read again, unless the file was replaced or truncated."""
        ...


class SubAgent(msgspec.Struct, frozen=True, kw_only=True):
    """A sub-agent, as the files of the agent that began it tell."""

    id: str
    """the agent's own id for it"""
    path: Path
    """its transcript, which `AgentAdapter.append` can append to"""
    call: str | None = None
    """the tool call that began it"""
    task: str | None = None


class SubAgents(Protocol):
    """What an agent's own files tell about its sub-agents, and how the agent is told about them."""

    @property
    def tools(self) -> frozenset[str]:
        """Tools whose calls begin a sub-agent."""
        ...

    def begun(self, path: Path, known: Container[str]) -> list[SubAgent]:
        """The sub-agents of this transcript, but for those with a known id."""
        ...

    def follow(self, one: SubAgent) -> Follower:
        """An incremental reader of its transcript."""
        ...

    def spawned(self, lines: Sequence[Line]) -> dict[str, str]:
        """By id: the calls that began sub-agents, where these lines of the conversation alone tell it."""
        ...

    def reported(self, lines: Sequence[Line]) -> set[str]:
        """Ids of sub-agents, and of calls that began one, whose report is in these lines of the conversation."""
        ...

    def failure_in(self, line: Line) -> str | None:
        """The error with which a sub-agent has ended, if this is the last line of its transcript; None if it has not
        ended so."""
        ...

    def report_in(self, result: Any) -> str | None:
        """The report in the result of a call that began one, as a hook reports it; None if it has none: one that runs
        in the background has only begun."""
        ...

    def told(self, text: str, lines: Sequence[Line], *, at_us: int) -> Line:
        """A line that tells the agent this, to follow `lines`."""
        ...

    def how_to_continue(self, one: str) -> str:
        """What the agent can do to continue an interrupted sub-agent, by its id."""
        ...


class AgentDialect(Dialect, Protocol):
    """What a hand-over from or to an agent needs: its dialect, and how a session that another one began is started."""

    def command(self, *, screen: bool) -> tuple[str, ...]:
        """The command that continues such a session: without a prompt, with the user's own configuration. `screen`:
        in a terminal."""
        ...

    def is_compaction(self, line: Line) -> bool:
        """Whether the agent itself replaced what was said before this line by a summary."""
        ...


class AgentAdapter(Protocol):
    """Adapter for one kind of agent."""

    @property
    def name(self) -> str:
        """The name recorded with a session and used by the failure classifier: `claude`, `codex`, `command`."""
        ...

    @property
    def provider(self) -> str | None:
        """The provider whose models it calls, if there is only one."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What this adapter supports; constant."""
        ...

    @property
    def dialect(self) -> AgentDialect | None:
        """Its conversations in the neutral view and back; None: nothing can be handed over from it or to it."""
        ...

    @property
    def subagents(self) -> SubAgents | None:
        """Its sub-agents; None if nothing is known of them."""
        ...

    @property
    def install_hint(self) -> str:
        """The command that installs the agent."""
        ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """Names of environment variables it may take its credentials from."""
        ...

    def configured_secrets(self, surroundings: Surroundings) -> tuple[str, ...]:
        """Further such names, from the agent's own configuration."""
        ...

    def recognises(self, command: Sequence[str]) -> bool:
        """Whether this command starts this agent."""
        ...

    def task_of(self, command: Sequence[str]) -> str | None:
        """The prompt in the command, if any."""
        ...

    def native_id_of(self, command: Sequence[str]) -> str | None:
        """The native session that the command itself names (`--resume ID`, `--session-id ID`)."""
        ...

    def model_of(self, command: Sequence[str], surroundings: Surroundings) -> str | None:
        """The full name of the model it would start with; None if only the agent knows."""
        ...

    def own_cost(self, line: Line) -> OwnCost | None:
        """The cost that a line of the agent's output reports; None if it reports none."""
        ...

    def new_id(self) -> str | None:
        """A new native id, for `write` or for a start that may choose one; None if it has no transcript."""
        ...

    def launch(self, ask: Ask) -> Launch:
        """The process to start. UsageError if the command cannot be parsed."""
        ...

    def effect_of(self, tool: str, arguments: Any) -> Effect:
        """What repeating this call would do."""
        ...

    def hears(self, payload: Mapping[str, Any], surroundings: Surroundings) -> Heard | None:
        """Parse a hook event; None if it is not from this agent."""
        ...

    def decides(self, heard: Heard, decision: Decision, reason: str) -> Mapping[str, Any] | None:
        """The hook's reply for a decision about a tool call; None if the agent accepts none."""
        ...

    # -- the native session -----------------------------------------------------------------------------------

    def locate(self, native_id: str, surroundings: Surroundings) -> Path | None:
        """The path of this native session's transcript; None if it is not in the agent's home."""
        ...

    def sessions(self, surroundings: Surroundings, *, since_us: int = 0) -> list[str]:
        """Ids of the native sessions begun in this directory since then, newest first."""
        ...

    def everywhere(self, surroundings: Surroundings, *, most: int) -> list[Begun]:
        """The newest native sessions of this home, at most `most`, of all directories, newest first."""
        ...

    def id_in_output(self, line: Line) -> str | None:
        """The native id that a line of the agent's output reports; None if it reports none."""
        ...

    def read(self, path: Path) -> Transcript:
        """Read the native session of a transcript, including the part it shares with its parents."""
        ...

    def follow(self, path: Path) -> Follower:
        """An incremental reader of this transcript."""
        ...

    def key(self, line: Line) -> str:
        """`Entry.key` of a line from the journal."""
        ...

    def pending(self, lines: Sequence[Line]) -> list[NativeCall]:
        """Calls without a result in these lines, in order."""
        ...

    def prompted(self, text: str, *, at_us: int) -> Line:
        """A user line with this prompt, to begin a session that had no line on disk when its agent died."""
        ...

    def asked(self, call: NativeCall, lines: Sequence[Line], *, at_us: int) -> Line:
        """A model line with this call, to follow `lines`, for a call that only a hook has reported."""
        ...

    def answered(self, results: Mapping[str, NativeResult], lines: Sequence[Line], *, at_us: int) -> list[Line]:
        """Lines with the results of these pending calls, to follow `lines`; the model reads the texts verbatim."""
        ...

    def write(self, lines: Iterable[Line], native_id: str, surroundings: Surroundings) -> Path:
        """Write a new native session with this id, atomically and durably. The id must not exist."""
        ...

    def keep(self, path: Path, copy: Path, clean: Callable[[str], str]) -> None:
        """Copy a transcript durably, each line redacted by `clean`, readable by the user only; nothing if the copy
        exists."""
        ...

    def append(self, path: Path, lines: Sequence[Line], *, offset: int) -> None:
        """Append lines after the last whole line, which ends at `offset`; a torn tail is cut off."""
        ...


class Agents(Protocol):
    """The registry of all agent adapters."""

    @property
    def names(self) -> frozenset[str]:
        """Names of the built-in coding agents, without importing their adapters."""
        ...

    def headless(self, name: str) -> tuple[str, ...]:
        """The command that runs a prompt with this agent and without a screen; empty if there is none."""
        ...

    def named(self, name: str) -> AgentAdapter:
        """The adapter of this name; if there is none, the one for plain commands."""
        ...

    def of(self, command: Sequence[str]) -> AgentAdapter:
        """The adapter that recognises a command; if none does, the one for plain commands."""
        ...

    def known(self) -> tuple[AgentAdapter, ...]:
        """The adapters of all coding agents."""
        ...
