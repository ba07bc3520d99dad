"""The documents that go out, for the OpenAPI document: what a client may rely on. Made elsewhere
(history/documents.py).

Answers are not passed through these classes: a test compares the two, over every route.
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
    """A page; `next` is the cursor of the one after it, null at the end."""

    items: list[T]
    next: str | None = Field(examples=[None])


class ProblemDocument(BaseModel):
    """What went wrong (RFC 9457), with our stable code, evidence lines and hints."""

    type: str = Field(examples=["urn:relight:problem:RL-2001"])
    title: str = Field(examples=["not found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["no session answers to 'fix-logn'"])
    code: str = Field(examples=["RL-2001"])
    evidence: list[str] = Field(examples=[[]])
    hints: list[str] = Field(
        description="what to do about it, in the words of this interface", examples=[["GET /api/sessions"]]
    )
    commands: list[str] = Field(
        default=[],
        description="what to do about it in a terminal on the machine of the server, where no request can; to be run",
        examples=[["a new link: relight serve --link"]],
    )
    plan: dict[str, Any] | None = Field(
        default=None, description="the plan as it is now, where the one shown has moved"
    )
    errors: list[dict[str, str]] | None = Field(default=None, description="each field that is missing or wrong")


class AttentionDocument(BaseModel):
    """Why a person should look."""

    kind: AttentionKind
    since: datetime
    text: str
    cure: str


class DoingDocument(BaseModel):
    """What runs right now."""

    tool: str
    since: datetime


class UsageDocument(BaseModel):
    """Tokens and cost; null where nobody said."""

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
    worked_seconds: float = Field(description="all attempts together, up to the newest step")
    limits: dict[str, float | None] = Field(description="budget, budget_tokens, time_limit; null: no such limit")
    spawned_by: str | None = Field(description="the session whose program started the program that began this one")
    attach: list[str] | None = Field(
        description="the command that joins its terminal on the machine it runs on; null: it has none, or does not run"
    )
    env: dict[str, str] = Field(description="variables that every start of it sets")
    secrets: list[str] = Field(description="names of the variables with credentials that a start of it needs")


class SessionsPage(Page[SessionDocument]):
    """Sessions, newest created first, with what is not shown."""

    counts: dict[str, int]
    """all sessions by stored status, whatever was asked for"""


class CheckpointDocument(BaseModel):
    """A committed position one can return to."""

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
    """A tool call, intent and result in one."""

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
    """What stands against a resume, or what one should know; with a cure where there is one."""

    code: str
    text: str
    cure: str | None
    blocks: bool


class PlannedCallDocument(BaseModel):
    """An open call, or a key of `once`, and what will be done about it."""

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
    """What a resume would do. `plan` goes into `If-Match`."""

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
        description="variables with credentials that its first start had: are they set here?",
        examples=[{"ANTHROPIC_API_KEY": True}],
    )
    first_reply: dict[str, Any] | None = Field(
        description="what the first reply would read, estimated: tokens, whether the cache is cold, cost"
    )
    effects_since: list[CallDocument] | None = Field(
        description="`once` calls that ran after it: no rewind undoes them"
    )
    directory: str | None = Field(description="where the command runs")
    orphans: list[int] = Field(description="processes of a dead attempt, which the next start ends")
    wait_until: datetime | None = Field(
        description="a usage limit was met: it would stand in line until then, unless `now` is set"
    )
    calls: list[PlannedCallDocument] = Field(
        description="calls that are open there, and what a resume (below the head: a fork) does about each"
    )
    rewind_calls: list[PlannedCallDocument] | None = Field(
        description="the same after a rewind to it; null where a newer step is damaged"
    )
    fork_calls: list[PlannedCallDocument] | None = Field(
        description="the same in a fork of it; null where a newer step is damaged"
    )


class DoubtDocument(BaseModel):
    """A call in doubt, and what the start did about it."""

    id: str
    name: str
    effect: str
    done: str = Field(examples=["told_unknown"])
    text: str


class StartedDocument(BaseModel):
    """What came of a start: it runs, or stands in line. The session as it is now, and who supervises it."""

    session: SessionDocument
    name: str | None
    status: Status
    reason: str | None
    attempt: int
    resumed_from: int | None = Field(description="the seq of the checkpoint that was asked for; null for a first run")
    checkpoint: str | None = Field(description="the same with its session: the one it comes from, where this is a fork")
    rung: str | None = Field(description="how a coding agent goes on: native, bootstrap or fresh", examples=["native"])
    command: list[str] | None = Field(description="as it was launched; null while it stands in line")
    directory: str | None
    workspace: dict[str, str]
    put_back: int | None = Field(
        description="the step whose capture the files were put back to; null: left as they are"
    )
    prompt_sent: bool
    in_doubt: list[DoubtDocument]
    handle: str | None
    orphans: list[int] = Field(description="processes of a dead attempt that were ended first")
    wake_at: datetime | None = Field(description="in line until then")
    program: int | None = Field(description="the pid of the program")
    pid: int | None = Field(description="of the supervisor; null where a worker will take it")


class EventDocument(BaseModel):
    """A step as the outside sees it."""

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
    """A step that says the word."""

    seq: int
    kind: str
    at: datetime
    text: str


class HitsPage(Page[HitDocument]):
    """Where a text was said; `count` is all of them, in all pages."""

    count: int


class FileDocument(BaseModel):
    """One file that differs, or was left out."""

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
    """A session among its forks."""

    session: SessionDocument
    forked_at: int | None
    depth: int


class FilesReportDocument(BaseModel):
    """What a restore did, or would do, by root; `step` is null where nothing was written."""

    session: str
    dry_run: bool
    step: str | None
    head: int
    plans: dict[str, Any]


class StoppedDocument(BaseModel):
    """Who was asked to end."""

    session: str
    pid: int
    supervised: bool
    killed: bool


class SentDocument(BaseModel):
    """The checkpoint that holds what was said; null where it was typed to a live agent."""

    session: str
    delivered: bool
    checkpoint: CheckpointDocument | None


class RemovedDocument(BaseModel):
    """What was removed, or with a dry run would be."""

    sessions: list[str]
    names: list[str]
    steps: int
    size_bytes: int
    file_bytes: int
    dry_run: bool


class RetentionDocument(BaseModel):
    """How long finished sessions are kept."""

    retention: str | None
    """`7d`, `off`, or null: nobody has set one, and nothing is removed"""
    finished_days: float | None
    set_by: str | None
    set_at: datetime | None
    last_sweep_at: datetime | None


class VerifiedDocument(BaseModel):
    """Every digest was read."""

    at: datetime
    sessions: int
    steps: int
    broken: int
    names: list[str] = Field(description="of the first that are broken")
    files: bool = Field(description="captured files were read too; else there are too many, or they lie elsewhere")
    seconds: float


class DrillDocument(BaseModel):
    """Sessions were brought back into an empty directory, and compared there with what was captured."""

    at: datetime
    restored: int
    tried: int
    files: int
    trouble: str = Field(description="of the first that did not come back", examples=[""])
    seconds: float


class GrowthDocument(BaseModel):
    """How the store grows."""

    bytes_a_day: float
    full_in_days: float | None = Field(description="at this speed; null where it does not grow, or nobody can say")


class UpkeepDocument(BaseModel):
    """What the daily look at the store found; null: it was not made yet."""

    verified: VerifiedDocument | None
    drilled: DrillDocument | None
    growth: GrowthDocument | None


class AdoptableDocument(BaseModel):
    """A coding agent's own session. `relight adopt NATIVE`, in its directory, takes it over."""

    agent: str
    native: str = Field(examples=["5f0c1f2e-0000-4000-8000-000000000000"])
    directory: str
    touched_at: datetime


class OneOfSeveral(BaseModel):
    """A session that could be archived, or started again. `plan` is what was seen of it."""

    session: str
    name: str | None
    status: Status
    reason: str | None
    head: int
    updated_at: datetime
    plan: str


class FinishedPage(Page[OneOfSeveral]):
    """What could be archived."""

    more: int = Field(description="that are not in this page")


class AlikeDocument(BaseModel):
    """Sessions that stopped for the same reason."""

    cause: str = Field(examples=["its process died"])
    items: list[OneOfSeveral]


class OutcomeDocument(BaseModel):
    """What became of one of several."""

    session: str
    done: bool
    detail: str = Field(description="why not", examples=[""])
    code: str | None = Field(examples=[None])


class SeveralDocument(BaseModel):
    """What became of each."""

    items: list[OutcomeDocument]
    done: int
    refused: int


class ForgottenDocument(BaseModel):
    """What a checkpoint lost; its step is still there."""

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
    """An entry of the audit log."""

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
    """How many sessions need someone, by kind, and the most urgent of them."""

    total: int
    counts: dict[str, int]
    items: list[SessionDocument]


class TokenDocument(BaseModel):
    """An API token; never its value."""

    name: str
    scope: str
    created_at: datetime
    revoked_at: datetime | None


class NewTokenDocument(TokenDocument):
    """The one time that its value is shown."""

    token: str


class HealthDocument(BaseModel):
    """Does the store answer, and what does an acknowledged step survive?"""

    ok: bool
    store: str = Field(examples=["sqlite"])
    durability: str = Field(examples=["power-loss"])
    durability_text: str
    schema_version: int | None
    version: str
    sessions: int


class FindingDocument(BaseModel):
    """The store as an operator sees it."""

    url: str
    durability: str
    durability_text: str
    schema_version: int | None
    size_bytes: int
    file_bytes: int
    counts: dict[str, int]
