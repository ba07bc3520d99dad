"""A session as every entry point shows it: the JSON of `relight list --json`, the API and the pages."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from relight.values.call import Call, PlannedCall
from relight.values.status import Asking, Failure, Status
from relight.values.usage import Usage

AttentionKind = Literal["waiting", "in_doubt", "stuck", "corrupt", "failed", "terminated", "quiet", "halted"]


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """Why a session needs a person's attention."""

    kind: AttentionKind
    since: datetime
    text: str
    cure: str
    """a command that can be pasted"""


class Doing(msgspec.Struct, frozen=True, kw_only=True):
    """The tool call that runs right now."""

    tool: str
    since: datetime


QueuedAs = Literal["in_line", "limit", "retry", "scheduled", "answered", "forked", "rewound", "prompted", "ready"]
"""why a session is queued: in a queue for a worker; until a limit of its provider ends; until it is tried again; until
the time it was planned for; or since it was answered, forked, rewound, prompted or created, and not started yet"""


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a list or a header needs; derived, never stored."""

    id: str
    name: str | None
    key: str | None
    agent: str | None
    provider: str | None
    model: str | None
    task: str | None
    labels: dict[str, str]
    metadata: dict[str, Any]
    status: Status
    reason: str | None
    failure: Failure | None
    resumed_from: int | None
    head: int
    seq: int
    attempt: int
    parent: str | None
    workspace: dict[str, str]
    runtime: str | None
    handle: str | None
    created_at: datetime
    updated_at: datetime
    usage: Usage
    attention: Attention | None
    doing: Doing | None
    last_step_at: datetime | None
    saved_at: datetime | None
    wake_at: datetime | None
    cost: float | None
    cost_rate: float | None
    cost_tree: float | None
    """of it and everything below it; None in lists, where it is not added up"""
    evidence: list[str]
    message_count: int
    turns: int
    in_doubt: int
    question: str | None
    said: str | None
    directory: str | None
    command: list[str] | None
    size_bytes: int
    queue: str | None = None
    """the queue it is in whenever it is queued; None: no worker takes it"""
    priority: int = 0
    wants: list[str] = []
    """labels that its worker must have"""
    asking: Asking | None = None
    """details of the question: choices, default"""
    worked_seconds: float = 0.0
    """working time of all attempts, up to its newest step"""
    limits: dict[str, float | None] = {}
    """budget (US dollars), budget_tokens, time_limit (seconds of work); None: no such limit"""
    spawned_by: str | None = None
    """the session whose program started the program that began this one"""
    subagent: str | None = None
    """the coding agent's own id for it, if it is a sub-agent of `spawned_by`, which alone continues it"""
    attach: list[str] | None = None
    """the command that attaches to its terminal; None: it has none, or does not run"""
    env: dict[str, str] = {}
    """environment variables that every start sets"""
    secrets: list[str] = []
    """names of the variables with credentials that a start of it needs"""
    queued_as: QueuedAs | None = None
    """what it waits for while it is queued"""

    @property
    def title(self) -> str:
        """Its name, else the first 8 characters of its id."""
        return self.name or self.id[:8]


class ChildInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A session that another one spawned, as its parent sees it."""

    name: str
    """its own name, without the parent's"""
    session: SessionInfo
    """its status, usage, and in `evidence` where it runs"""
    result: Any = None
    """the value it completed with; None until then"""

    @property
    def status(self) -> Status:
        """As shown: `terminated` if its process is dead."""
        return self.session.status

    @property
    def usage(self) -> Usage:
        """What it has used itself, without its own children."""
        return self.session.usage


class Differing(msgspec.Struct, frozen=True, kw_only=True):
    """A path that differs between disk and checkpoint."""

    root: str
    path: str
    what: Literal["added", "changed", "deleted"]
    """on disk, since the checkpoint"""
    later: bool
    """changed after the session's last capture, so not by the session"""


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A path that is not captured, and why."""

    root: str
    path: str
    reason: str
    size_bytes: int = 0


class FilesState(msgspec.Struct, frozen=True, kw_only=True):
    """Status of a checkpoint's files; None means that it was not requested."""

    workspace: dict[str, str]
    """root name to path"""
    missing: list[str]
    """directories that do not exist"""
    captured_at: int | None = None
    """the step whose snapshot applies at the checkpoint; None: nothing was captured yet"""
    trouble: str | None = None
    """why something was not captured, or is unknown"""
    differ: list[Differing] | None = None
    since: int | None = None
    """the first capture"""
    changed: int | None = None
    lines_added: int | None = None
    lines_removed: int | None = None
    left_out: list[LeftOut] | None = None


class FilesPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a start does about the files of its session."""

    action: Literal["stay", "put_back", "made_anew", "in_place", "own_directory"]
    """left as they are; missing files are restored; missing directories are created and filled; the original directory
    is restored to the checkpoint; a new session gets the checkpoint's files in a new directory"""
    at: int | None = None
    """the step whose snapshot is used; None: none"""
    places: dict[str, str] = {}
    """root name to directory; empty if a new directory is named after an id that does not exist yet"""
    files: int | None = None
    """how many are written or deleted; None: all of them, or none"""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One reason against a resume, or a warning."""

    code: str
    text: str
    cure: str | None = None
    blocks: bool = True


class AgentState(msgspec.Struct, frozen=True, kw_only=True):
    """How a coding agent would continue."""

    agent: str
    rung: str
    """native, bootstrap, fresh"""
    written: bool = False
    """native: its native session is missing or differs, and is written from the journal"""
    living: int | None = None
    """the pid of an agent that outlived its supervisor: it is reattached, not started"""
    cannot: list[str] = []
    """what this agent does not support, in words"""


class HandOver(msgspec.Struct, frozen=True, kw_only=True):
    """What another agent is given of a conversation."""

    source: str
    """the agent, or the format of a program's messages"""
    target: str
    message_count: int
    losses: list[str]
    """the loss report: what is dropped, changed, cut or added"""
    faults: list[str] = []
    """rules of providers that the result would break; if there are any, the agent is given a brief instead"""


class FirstReply(msgspec.Struct, frozen=True, kw_only=True):
    """Estimate of what the first reply after a resume would read."""

    tokens: int
    counted: bool
    """most of it was counted by the provider; else all of it is estimated by length"""
    replied_at: datetime | None = None
    """when it was last read"""
    cold: bool | None = None
    """the provider's cache has expired; None: unknown"""
    cost: float | None = None


class ResumePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a resume would do; the same object for `can-resume`, the dialog and `resume` itself."""

    ok: bool
    session: str
    name: str | None
    checkpoint: str
    """where it would continue"""
    status: Status
    stopped_at: datetime | None
    why_stopped: str | None
    forks: bool
    """the checkpoint is before the head, so a new session would be created"""
    message_count: int
    in_doubt: list[Call]
    told: str | None
    """what the model will be told about calls in doubt"""
    command: list[str] | None
    reasons: list[Reason]
    plan: str
    """hash of the state this was decided on; another one means that the state has changed"""
    files: FilesState | None = None
    """None: the session has no workspace"""
    agent: AgentState | None = None
    """None: its program is not a coding agent"""
    environment: dict[str, bool] = {}
    """credential variables of its first start, and whether they are set here"""
    first_reply: FirstReply | None = None
    """None: there is nothing to read, or the agent does not read it again"""
    calls: list[PlannedCall] = []
    """open calls there, and what will be done about each"""
    directory: str | None = None
    """where the command runs"""
    orphans: list[int] = []
    """processes of a dead attempt, ended before the start"""
    files_plan: FilesPlan | None = None
    """what the start does about the files; None: the session has none, or it is unknown"""
    hand_over: HandOver | None = None
    """None: the agent continues its own conversation"""
    wait_until: datetime | None = None
    """a usage limit was reached: unless started anyway, it is queued until then"""
