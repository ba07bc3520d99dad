"""A session as every door shows it: the JSON of `relight list --json`, of the API and of the page."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from relight.values.call import Call, PlannedCall
from relight.values.status import Asking, Failure, Status
from relight.values.usage import Usage

AttentionKind = Literal["waiting", "in_doubt", "stuck", "corrupt", "failed", "terminated", "quiet", "halted"]


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """Why a person should look."""

    kind: AttentionKind
    since: datetime
    text: str
    cure: str
    """a command that can be pasted"""


class Doing(msgspec.Struct, frozen=True, kw_only=True):
    """What runs right now."""

    tool: str
    since: datetime


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
    """the line it stands in whenever it is queued; None: no worker takes it up"""
    priority: int = 0
    wants: list[str] = []
    """labels that its worker must have"""
    asking: Asking | None = None
    """what stands behind the question: the choices, a default"""
    worked_seconds: float = 0.0
    """how long it has worked, all attempts together, up to its newest step"""
    limits: dict[str, float | None] = {}
    """budget (US dollars), budget_tokens, time_limit (seconds of work); None: no such limit"""
    spawned_by: str | None = None
    """the session whose program started the program that began this one"""
    attach: list[str] | None = None
    """the command that joins the terminal it lives in; None: it has none, or does not run"""
    env: dict[str, str] = {}
    """variables that are part of how it is started"""
    secrets: list[str] = []
    """names of the variables with credentials that a start of it needs"""

    @property
    def title(self) -> str:
        """How a person calls it: its name, else the beginning of its id."""
        return self.name or self.id[:8]


class Differing(msgspec.Struct, frozen=True, kw_only=True):
    """A path that is another on disk than in a checkpoint."""

    root: str
    path: str
    what: Literal["added", "changed", "deleted"]
    """on disk, since the checkpoint"""
    later: bool
    """after the session's last capture: somebody else did it"""


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A path that is not captured, and why."""

    root: str
    path: str
    reason: str
    size_bytes: int = 0


class FilesState(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint's files, as far as somebody asked: what is None was not looked at."""

    workspace: dict[str, str]
    """root name to path"""
    missing: list[str]
    """directories that are not there"""
    captured_at: int | None = None
    """the step whose capture the checkpoint holds; None: nothing was captured yet"""
    trouble: str | None = None
    """why something was not captured, or cannot be said"""
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
    """left as they are; what is lacking is put back; missing directories are made and filled; the original directory
    goes back to the checkpoint; a new session gets the checkpoint's in a new directory"""
    at: int | None = None
    """the step whose capture they are taken from; None: none is"""
    places: dict[str, str] = {}
    """root name to directory; empty where a new directory is named after an id that is not drawn yet"""
    files: int | None = None
    """how many are written or deleted; None: all of them, or none"""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that stands against a resume, or that its user should know."""

    code: str
    text: str
    cure: str | None = None
    blocks: bool = True


class AgentState(msgspec.Struct, frozen=True, kw_only=True):
    """How a coding agent would go on."""

    agent: str
    rung: str
    """native, bootstrap, fresh"""
    written: bool = False
    """native: its own session is not there or says something else, and is written from the journal"""
    living: int | None = None
    """the pid of an agent that outlived its supervisor: it is taken up, not started"""


class FirstReply(msgspec.Struct, frozen=True, kw_only=True):
    """What the first reply after a resume would read; an estimate."""

    tokens: int
    counted: bool
    """the provider counted most of it; else all of it was measured by its length"""
    replied_at: datetime | None = None
    """when it was read last"""
    cold: bool | None = None
    """the provider's cache of it is over; None: nobody can say"""
    cost: float | None = None


class ResumePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a resume would do; the same object for `can-resume`, the dialog and `resume` itself."""

    ok: bool
    session: str
    name: str | None
    checkpoint: str
    """where it would go on"""
    status: Status
    stopped_at: datetime | None
    why_stopped: str | None
    forks: bool
    """the checkpoint lies below the head, so a new session would be made"""
    message_count: int
    in_doubt: list[Call]
    told: str | None
    """what the model will be told about calls in doubt"""
    command: list[str] | None
    reasons: list[Reason]
    plan: str
    """a hash of what this was decided on; another one means that the state moved"""
    files: FilesState | None = None
    """None: the session has no workspace"""
    agent: AgentState | None = None
    """None: its program is no coding agent"""
    environment: dict[str, bool] = {}
    """variables with credentials that its first start had: are they set here?"""
    first_reply: FirstReply | None = None
    """None: there is nothing to read, or the agent does not read it anew"""
    calls: list[PlannedCall] = []
    """calls that are open there, and what will be done about each"""
    directory: str | None = None
    """where the command runs"""
    orphans: list[int] = []
    """processes of a dead attempt, which the start ends first"""
    files_plan: FilesPlan | None = None
    """what the start does about the files; None: the session has none, or nobody can say"""
    wait_until: datetime | None = None
    """a usage limit was met: unless it is told to start anyway, it stands in line until then"""
