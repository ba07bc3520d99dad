"""An agent adapter: the translator for one kind of coding agent. What every adapter promises.

1. The journal of such a session holds the agent's own transcript lines, verbatim. From them the adapter can write the
   native session again, whole, under another id, in another directory, in a blank home: so resume, fork, rewind and
   moving are one operation, and the original file is used wherever it still says what the journal says.
2. Reading is total: a torn tail, a strange line, a file that is gone is answered, never raised on. What could not be
   read is told in `Transcript.torn`, byte for byte.
3. Nothing is written outside of the agent's own home, whatever an id or a path says; nothing the user wrote there is
   changed. A line is appended or a new file is made, never a line rewritten.
4. A prompt is an argument of the process that is started.
5. A launch is a value. The adapter starts nothing: the runtime does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from relight.values.call import Effect
from relight.values.usage import Usage

Line = dict[str, Any]
"""one line of a native transcript, as the agent wrote it"""

Rung = Literal["native", "bootstrap", "fresh"]
"""how an attempt began: the agent's own resume, a brief from our journal, or from nothing"""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What an adapter can do; shown to the user."""

    transcript: bool = False
    """its conversation can be read"""
    native_resume: bool = False
    chosen_id: bool = False
    """a session can be started under an id of our choice"""
    hooks: bool = False
    """it tells us before and after each tool"""
    approvals: bool = False
    """a tool call can be made to wait for a person"""
    gate: bool = False
    """it asks us before each model call, where there is a limit, and waits for the answer"""
    interactive: bool = False
    """it has a screen of its own that text can be typed into"""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the agent lives: what decides which native files are its own."""

    directory: str
    """where it runs"""
    environment: Mapping[str, str]
    """as its process will have it; HOME and the like say where its state lies"""


class Hooks(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent can tell us what it does."""

    command: tuple[str, ...]
    """to be run with one JSON object on its stdin; its stdout is the answer"""
    file: Path
    """where a settings file for this session may be written; ours, not the user's"""
    approve: tuple[str, ...] = ()
    """patterns of tool calls that wait for a person"""
    deny: str = ""
    """the answer that denies a tool call, in the agent's own form: the command's one argument before a tool. Set where
    calls wait for a person; a call about which the command could not ask anybody must not run"""
    gate: bool = False
    """there is a limit of money or tokens: ask before whatever leads to a model call"""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt wants of the agent."""

    command: tuple[str, ...]
    """as the user gave it to `relight run`, or as adopted"""
    surroundings: Surroundings
    rung: Rung
    native_id: str | None = None
    """native: the session to go on with; fresh: the id to begin under, where it can be chosen"""
    prompt: str | None = None
    """native: what to say next (None: the adapter's own words for going on); bootstrap: the brief;
    fresh: None for the prompt that stands in the command"""
    unfinished: bool = False
    """native: a turn was cut off, so an agent on a screen is told to go on too; else it waits there for its user"""
    deferred: bool = False
    """native: a tool call waits for a decision that was made; nothing is said, the agent asks its hook again"""
    hooks: Hooks | None = None


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A process to start."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = {}
    """added to the surroundings'"""
    files: Mapping[Path, bytes] = {}
    """to be written first, readable by the user alone; they are ours"""
    prompt_sent: bool = False
    """does the initial prompt go with it?"""
    headless: bool = True
    """it prints lines and needs no terminal; else it draws a screen"""


class NativeCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call without a result in the transcript."""

    id: str
    name: str
    arguments: Any = None


class NativeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the model is told about a call that the transcript leaves open."""

    text: str
    failed: bool = True


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line that belongs to the conversation as the model sees it."""

    key: str
    """what stays the same however often and by whomever the line is written, redacted or not: the ids of its calls or
    of its results, else the line's own id"""
    line: Line
    usage: Usage | None = None
    """tokens that this line is the first to tell of"""
    model: str | None = None
    """whose tokens these are"""
    kept_long: int = 0
    """how many of the tokens written to the provider's cache are kept there for an hour"""
    ends_turn: bool = False
    """the agent has nothing more to do until it is asked again"""


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """A native session, wherever it was begun."""

    native_id: str
    directory: str
    touched_us: int


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """A native session as it stands on disk: the active branch, from the last compaction on, in the order of the
    conversation. Bookkeeping lines that the agent can do without are left out."""

    native_id: str
    path: Path
    entries: tuple[Entry, ...]
    offset: int
    """bytes read; all whole lines"""
    torn: bytes = b""
    """what follows them: an unfinished or unreadable tail"""
    model: str | None = None
    version: str | None = None


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook of the agent told."""

    kind: Literal["model_begins", "tool_begins", "tool_ended", "turn_ended", "session_began", "session_ended", "other"]
    native_id: str | None = None
    transcript: Path | None = None
    """where it says its transcript is; None unless that is in the agent's own home"""
    call: str = ""
    tool: str = ""
    arguments: Any = None
    result: Any = None
    failed: bool = False
    sidechain: bool = False
    """told by a sub-agent: its calls do not stand in the transcript"""


class OwnCost(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's own figure: what so many tokens cost, those of helpers and side requests included."""

    cost: float
    tokens: int


Decision = Literal["allow", "deny", "wait"]


class Follower(Protocol):
    """A transcript that grows."""

    def read(self) -> Transcript:
        """As it stands now. What was read before is not read again, unless the file was replaced or cut."""
        ...


class Spending(Protocol):
    """Tokens that are used beside a transcript."""

    def read(self) -> list[Entry]:
        """Those that were told since the last call; of each entry the usage and the model count."""
        ...


class AgentAdapter(Protocol):
    """One kind of agent."""

    @property
    def name(self) -> str:
        """As the session records it, and the classifier of failures knows it: `claude`, `codex`, `command`."""
        ...

    @property
    def provider(self) -> str | None:
        """Whose models it calls, where that goes without saying."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        ...

    @property
    def install_hint(self) -> str:
        """How a person gets it."""
        ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """Names of environment variables it may take its credentials from."""
        ...

    def configured_secrets(self, surroundings: Surroundings) -> tuple[str, ...]:
        """Further names, which the agent's own configuration gives."""
        ...

    def recognises(self, command: Sequence[str]) -> bool:
        """Is this command this agent?"""
        ...

    def task_of(self, command: Sequence[str]) -> str | None:
        """The prompt that stands in the command."""
        ...

    def native_id_of(self, command: Sequence[str]) -> str | None:
        """The native session the command itself names (`--resume ID`, `--session-id ID`)."""
        ...

    def model_of(self, command: Sequence[str], surroundings: Surroundings) -> str | None:
        """The model it would begin with, by its full name; None where only the agent knows."""
        ...

    def own_cost(self, line: Line) -> OwnCost | None:
        """What a line that the agent printed says its work has cost; None where it says nothing."""
        ...

    def helpers(self, path: Path) -> Spending | None:
        """What the sub-agents of this transcript use from now on; None where nobody can tell."""
        ...

    def new_id(self) -> str | None:
        """An id for a native session that `write` will make, or a start may choose; None where it has no transcript."""
        ...

    def launch(self, ask: Ask) -> Launch:
        """The process that does what is asked. UsageError where the command cannot be understood."""
        ...

    def effect_of(self, tool: str, arguments: Any) -> Effect:
        """What repeating this call would do."""
        ...

    def hears(self, told: Mapping[str, Any], surroundings: Surroundings) -> Heard | None:
        """What one call of our hook command means; None where it is none of this agent's."""
        ...

    def decides(self, heard: Heard, decision: Decision, reason: str) -> Mapping[str, Any] | None:
        """How the agent is told of a decision about a tool that is about to begin; None where it cannot be told."""
        ...

    # -- the native session -----------------------------------------------------------------------------------

    def locate(self, native_id: str, surroundings: Surroundings) -> Path | None:
        """The transcript of this id; None where there is none in the agent's home."""
        ...

    def newest(self, surroundings: Surroundings, *, since_us: int) -> str | None:
        """The id of the native session begun in this directory since then; None unless there is exactly one."""
        ...

    def sessions(self, surroundings: Surroundings) -> list[str]:
        """Ids of all native sessions begun in this directory, newest first: what `adopt` offers."""
        ...

    def everywhere(self, surroundings: Surroundings, *, most: int) -> list[Begun]:
        """Native sessions of this home, whichever directory they were begun in, newest first; not more are read."""
        ...

    def id_in_output(self, line: Line) -> str | None:
        """The native id, where a line that the agent printed tells it."""
        ...

    def read(self, path: Path) -> Transcript:
        """The native session behind a transcript, its lineage followed."""
        ...

    def follow(self, path: Path) -> Follower:
        """The same, to be read again and again while it grows."""
        ...

    def key(self, line: Line) -> str:
        """As `Entry.key`, of a line that the journal holds."""
        ...

    def pending(self, lines: Sequence[Line]) -> list[NativeCall]:
        """Calls without a result in these lines, in order."""
        ...

    def prompted(self, text: str, *, at_us: int) -> Line:
        """A line in which the user says this, to begin a session with: the disk had none when its agent died."""
        ...

    def asked(self, call: NativeCall, lines: Sequence[Line], *, at_us: int) -> Line:
        """A line in which the model asks for this call, to follow `lines`: a hook knew of it before the disk did."""
        ...

    def answered(self, results: Mapping[str, NativeResult], lines: Sequence[Line], *, at_us: int) -> list[Line]:
        """Lines that answer these pending calls of `lines`, to follow them; the model reads the texts verbatim."""
        ...

    def write(self, lines: Iterable[Line], native_id: str, surroundings: Surroundings) -> Path:
        """Make the native session of this id from these lines, whole or not at all, durable. The id must be new."""
        ...

    def keep(self, path: Path, copy: Path, clean: Callable[[str], str]) -> None:
        """Copy a transcript aside, every line passed through `clean`, durable, for the user alone; nothing where that
        copy is there."""
        ...

    def append(self, path: Path, lines: Sequence[Line], *, offset: int) -> None:
        """Add lines to a transcript whose whole lines end at `offset`; a torn tail is cut off (it was kept aside)."""
        ...


class Agents(Protocol):
    """All adapters."""

    @property
    def names(self) -> frozenset[str]:
        """Of coding agents, without asking for their adapters."""
        ...

    def named(self, name: str) -> AgentAdapter:
        """The adapter of this name; the one for any command where there is none."""
        ...

    def of(self, command: Sequence[str]) -> AgentAdapter:
        """The adapter that recognises a command; the one for any command where none does."""
        ...

    def known(self) -> tuple[AgentAdapter, ...]:
        """Those of coding agents."""
        ...
