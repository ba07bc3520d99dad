"""Schemas of the responses, for the OpenAPI document only.

Responses are built from the library's structs (history/documents.py) and not validated against these classes at run
time; a test compares the two for every route.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, Field

from relight.values.call import Action, Effect
from relight.values.info import AttentionKind
from relight.values.status import Status
from relight.values.step import StepKind

T = TypeVar("T")


class Page(BaseModel, Generic[T]):
    """A page of a list; `next` is the cursor of the following page, null at the end."""

    items: list[T]
    next: str | None = Field(examples=[None])


class ProblemDocument(BaseModel):
    """A problem document (RFC 9457) with a stable code, evidence and hints."""

    type: str = Field(examples=["urn:relight:problem:RL-2001"])
    title: str = Field(examples=["not found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["no session matches 'fix-logn'"])
    code: str = Field(examples=["RL-2001"])
    evidence: list[str] = Field(examples=[[]])
    hints: list[str] = Field(
        description="what to do about it, as requests and members of a body", examples=[["GET /api/sessions"]]
    )
    commands: list[str] = Field(
        default=[],
        description="what to do about it in a terminal on the server's machine, where no request can do it",
        examples=[["a new link: relight serve --link"]],
    )
    plan: dict[str, Any] | None = Field(
        default=None, description="the present plan, if the session has changed since the plan of If-Match"
    )
    errors: list[dict[str, str]] | None = Field(default=None, description="each missing or invalid field")


class AttentionDocument(BaseModel):
    """Why a session needs a person, and what to do about it."""

    kind: AttentionKind
    since: datetime
    text: str
    cure: str


class DoingDocument(BaseModel):
    """The tool that is running now."""

    tool: str
    since: datetime


class UsageDocument(BaseModel):
    """Tokens and cost; the cost is null if it is not known."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost: float | None


class SessionDocument(BaseModel):
    """A session, the same as `relight list --json` writes."""

    id: str = Field(examples=["7f3a91c2d4e5f60718293a4b5c6d7e8f"])
    name: str | None = Field(examples=["fix-login"])
    key: str | None
    agent: str | None = Field(examples=["claude"])
    provider: str | None
    model: str | None
    task: str | None
    labels: dict[str, str]
    metadata: dict[str, Any]
    status: Status
    reason: str | None
    failure: dict[str, Any] | None
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
    usage: UsageDocument
    attention: AttentionDocument | None
    doing: DoingDocument | None
    last_step_at: datetime | None
    saved_at: datetime | None
    wake_at: datetime | None
    cost: float | None
    cost_rate: float | None
    cost_tree: float | None
    evidence: list[str]
    worked_seconds: float = Field(description="of all attempts, up to the newest step")
    limits: dict[str, float | None] = Field(description="budget, budget_tokens, time_limit; null: no limit")
    spawned_by: str | None = Field(description="the session whose program started this one")
    attach: list[str] | None = Field(
        description="the command that attaches to its terminal, on its machine; null: no terminal, or not running"
    )
    env: dict[str, str] = Field(description="environment variables of every start")
    secrets: list[str] = Field(description="names of the variables with credentials that every start requires")


class SessionsPage(Page[SessionDocument]):
    """A page of sessions, newest created first."""

    counts: dict[str, int]
    """all sessions by stored status, regardless of the filters"""


class CheckpointDocument(BaseModel):
    """A committed position to return to."""

    id: str = Field(examples=["7f3a91c2d4e5f60718293a4b5c6d7e8f@206"])
    session: str
    seq: int
    kind: StepKind
    label: str | None
    created_at: datetime
    turns: int
    message_count: int
    model: str | None
    snapshot: str | None
    size_bytes: int
    version: int


class CallDocument(BaseModel):
    """A tool call with its intent and its outcome."""

    id: str
    name: str
    arguments: Any
    result: Any
    success: bool | None
    effect: str | None
    in_doubt: bool
    intent_seq: int | None
    result_seq: int | None
    started_at: datetime | None
    ended_at: datetime | None


class ReasonDocument(BaseModel):
    """A reason why a resume is not possible, or a warning; with a cure if there is one."""

    code: str
    text: str
    cure: str | None
    blocks: bool


class PlannedCallDocument(BaseModel):
    """An open tool call, or a once key, and what will be done about it."""

    id: str
    name: str
    effect: Effect | None
    key: str
    action: Action
    text: str
    carried_from: str | None


class FilesPlanDocument(BaseModel):
    """What a start does about the files of its session."""

    action: Literal["stay", "put_back", "made_anew", "in_place", "own_directory"]
    at: int | None = Field(description="the step whose capture they are taken from")
    places: dict[str, str] = Field(
        description="root name to directory; empty where a new directory is named after an id that is not drawn yet"
    )
    files: int | None = Field(description="how many are put back, where it is not all of them or none")


class PlanDocument(BaseModel):
    """What a resume would do. `plan` is the hash for `If-Match`."""

    ok: bool
    session: str
    name: str | None
    checkpoint: str
    status: Status
    stopped_at: datetime | None
    why_stopped: str | None
    forks: bool
    message_count: int
    in_doubt: list[CallDocument]
    told: str | None
    command: list[str] | None
    reasons: list[ReasonDocument]
    plan: str
    files: dict[str, Any] | None
    files_plan: FilesPlanDocument | None = Field(description="what the start does about them")
    agent: dict[str, Any] | None
    environment: dict[str, bool] = Field(
        description="variables with credentials that its first start had, and whether they are set here",
        examples=[{"ANTHROPIC_API_KEY": True}],
    )
    first_reply: dict[str, Any] | None = Field(
        description="estimate for the first reply: input tokens, whether the cache is cold, cost"
    )
    effects_since: list[CallDocument] | None = Field(
        description="`once` calls that ran after the checkpoint: no rewind undoes them"
    )
    directory: str | None = Field(description="working directory of the command")
    orphans: list[int] = Field(description="processes of a dead attempt, which the next start ends")
    wait_until: datetime | None = Field(
        description="a usage limit was reached: it would be queued until then, unless `now` is set"
    )
    calls: list[PlannedCallDocument] = Field(
        description="calls that are open at the checkpoint, and what a resume (below the head: a fork) does about each"
    )
    rewind_calls: list[PlannedCallDocument] | None = Field(
        description="the same after a rewind to the checkpoint; null if a newer step is damaged"
    )
    fork_calls: list[PlannedCallDocument] | None = Field(
        description="the same in a fork of the checkpoint; null if a newer step is damaged"
    )


class DoubtDocument(BaseModel):
    """A call in doubt, and what the start did about it."""

    id: str
    name: str
    effect: str
    done: str = Field(examples=["told_unknown"])
    text: str


class StartedDocument(BaseModel):
    """A session that was started or queued, and its supervisor."""

    session: SessionDocument
    name: str | None
    status: Status
    reason: str | None
    attempt: int
    resumed_from: int | None = Field(description="seq of the requested checkpoint; null for a first run")
    checkpoint: str | None = Field(description="the same with its session: that of the parent if this is a fork")
    rung: str | None = Field(description="how a coding agent resumes: native, bootstrap or fresh", examples=["native"])
    command: list[str] | None = Field(description="as launched; null while queued")
    directory: str | None
    workspace: dict[str, str]
    put_back: int | None = Field(description="the step whose snapshot was restored; null: files were left as they are")
    prompt_sent: bool
    in_doubt: list[DoubtDocument]
    handle: str | None
    orphans: list[int] = Field(description="processes of a dead attempt that were ended first")
    wake_at: datetime | None = Field(description="queued until then")
    program: int | None = Field(description="pid of the program")
    pid: int | None = Field(description="pid of the supervisor; null while queued")


class EventDocument(BaseModel):
    """A step with its content."""

    session: str
    seq: int
    kind: StepKind
    at: datetime
    attempt: int
    label: str | None
    messages: list[Any]
    intents: list[dict[str, Any]]
    outcomes: list[dict[str, Any]]
    state: dict[str, Any]
    usage: dict[str, Any] | None
    status: dict[str, Any] | None
    started: dict[str, Any] | None
    partial: Any
    answer: list[Any]
    note: dict[str, Any]
    base: int


class HitDocument(BaseModel):
    """A step that contains the text, and the passage."""

    seq: int
    kind: str
    at: datetime
    text: str


class HitsPage(Page[HitDocument]):
    """Hits of a search; `count` is the number of all hits, not of this page."""

    count: int


class FileDocument(BaseModel):
    """A file that differs, or was left out of the snapshot."""

    root: str
    path: str
    what: str
    kind: str
    size_before: int
    size_after: int
    lines_added: int | None
    lines_removed: int | None
    text: str | None
    may_run_later: bool


class BranchDocument(BaseModel):
    """A session in the tree of its forks."""

    session: SessionDocument
    forked_at: int | None
    depth: int


class FilesReportDocument(BaseModel):
    """What a restore did or would do, by root; `step` is null if nothing was committed."""

    session: str
    dry_run: bool
    step: str | None
    head: int
    plans: dict[str, Any]


class StoppedDocument(BaseModel):
    """The process that was stopped."""

    session: str
    pid: int
    supervised: bool
    killed: bool


class SentDocument(BaseModel):
    """`checkpoint` holds the message; null if it was typed to a running agent."""

    session: str
    delivered: bool
    checkpoint: CheckpointDocument | None


class RemovedDocument(BaseModel):
    """What was removed, or with `dry_run` would be."""

    sessions: list[str]
    names: list[str]
    steps: int
    size_bytes: int
    file_bytes: int
    dry_run: bool


class RetentionDocument(BaseModel):
    """The retention policy of the store."""

    retention: str | None
    """`7d`, `off`, or null: not set; nothing is removed automatically"""
    finished_days: float | None
    set_by: str | None
    set_at: datetime | None
    last_sweep_at: datetime | None


class VerifiedDocument(BaseModel):
    """Result of verifying every digest."""

    at: datetime
    sessions: int
    steps: int
    broken: int
    names: list[str] = Field(description="the first broken sessions")
    files: bool = Field(description="captured files were verified too; false: too large, or in a remote blob store")
    seconds: float


class DrillDocument(BaseModel):
    """Result of restoring sessions into an empty directory and comparing them with their snapshots."""

    at: datetime
    restored: int
    tried: int
    files: int
    trouble: str = Field(description="why the first of them could not be restored", examples=[""])
    seconds: float


class GrowthDocument(BaseModel):
    """How fast the store grows."""

    bytes_a_day: float
    full_in_days: float | None = Field(description="at this speed; null if it does not grow or is not known")


class UpkeepDocument(BaseModel):
    """Results of the daily upkeep; null: there was none yet."""

    verified: VerifiedDocument | None
    drilled: DrillDocument | None
    growth: GrowthDocument | None


class AdoptableDocument(BaseModel):
    """A native session of a coding agent; `relight adopt NATIVE` in its directory takes it over."""

    agent: str
    native: str = Field(examples=["5f0c1f2e-0000-4000-8000-000000000000"])
    directory: str
    touched_at: datetime


class OneOfSeveral(BaseModel):
    """A session that could be archived or resumed. `plan` is its plan hash."""

    session: str
    name: str | None
    status: Status
    reason: str | None
    head: int
    updated_at: datetime
    plan: str


class FinishedPage(Page[OneOfSeveral]):
    """Sessions that could be archived."""

    more: int = Field(description="number of sessions that are not on this page")


class AlikeDocument(BaseModel):
    """Sessions that stopped for the same reason."""

    cause: str = Field(examples=["its process died"])
    items: list[OneOfSeveral]


class OutcomeDocument(BaseModel):
    """Outcome for one of several sessions."""

    session: str
    done: bool
    detail: str = Field(description="why it was refused", examples=[""])
    code: str | None = Field(examples=[None])


class SeveralDocument(BaseModel):
    """Outcomes for each of several sessions."""

    items: list[OutcomeDocument]
    done: int
    refused: int


class ForgottenDocument(BaseModel):
    """What was removed from a checkpoint; its step stays."""

    checkpoint: str
    labels: int
    snapshots: int
    kept: int


class LeaseDocument(BaseModel):
    """A lease, and what can be seen of its owner."""

    session: str
    name: str | None
    status: str
    owner: str
    epoch: int
    attempt: int
    expires_at: datetime | None
    remaining_seconds: float
    owner_gone: bool | None
    last_step_at: datetime
    evidence: list[str]


class ActionDocument(BaseModel):
    """One entry of the audit log."""

    id: int
    at: datetime
    who: str
    scope: str
    verb: str
    session: str | None
    name: str | None
    why: str | None
    asked: dict[str, Any]
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    outcome: str = Field(examples=["done"], description="begun, done, refused or unknown with its code")
    undo: str | None


class AttentionPage(BaseModel):
    """Number of sessions that need a person, by kind, and the most urgent of them."""

    total: int
    counts: dict[str, int]
    items: list[SessionDocument]


class TokenDocument(BaseModel):
    """An API token without its value."""

    name: str
    scope: str
    created_at: datetime
    revoked_at: datetime | None


class NewTokenDocument(TokenDocument):
    """A new API token with its value, which is shown only once."""

    token: str


class HealthDocument(BaseModel):
    """Whether the store answers, and what an acknowledged step survives."""

    ok: bool
    store: str = Field(examples=["sqlite"])
    durability: str = Field(examples=["power-loss"])
    durability_text: str
    schema_version: int | None
    version: str
    sessions: int


class FindingDocument(BaseModel):
    """Location, durability and size of the store."""

    url: str
    durability: str
    durability_text: str
    schema_version: int | None
    size_bytes: int
    file_bytes: int
    counts: dict[str, int]
