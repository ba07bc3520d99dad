"""Schemas of the responses, for the OpenAPI document only: generated from the structs that are sent.

A schema has the struct's fields, all of them present in a response, and the docstrings of struct and fields as
descriptions (`describe`). Only what is put together by a route is written down here. Responses are not validated
against these classes at run time; a test compares the two for every route.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from datetime import datetime
from types import UnionType
from typing import Any, Final, Generic, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from pydantic import BaseModel, Field, create_model

from relight.files.diff import FileDiff
from relight.history.documents import NOT_IN_CALL, NOT_IN_SESSION
from relight.history.events import Event
from relight.history.queries import Branch, Hit, LeaseInfo
from relight.history.search import SearchHit
from relight.operations.remove import Forgotten, Removed
from relight.server.jobs.upkeep import Drill, Growth, Verified
from relight.supervision.adopt import Adoptable
from relight.supervision.stop import Stopped
from relight.values.call import Call, PlannedCall
from relight.values.checkpoint import Checkpoint
from relight.values.info import ResumePlan, SessionInfo
from relight.values.outcome import StartOutcome
from relight.values.status import Status

BRIEF: Final = ("id", "status", "seq", "created_at")
"""members of a session in an event of the brief stream"""
T = TypeVar("T")


class Page(BaseModel, Generic[T]):
    """A page of a list; `next` is the cursor of the following page, null at the end."""

    items: list[T]
    next: str | None = Field(examples=[None])
    total: int = Field(description="how many there are on all pages; at least so many if not `exact`", examples=[1])
    exact: bool = Field(examples=[True])


_STRUCTS: Final[dict[str, type]] = {}
"""the struct of each generated schema, by name"""
_MADE: Final[dict[type, Any]] = {}


def document(name: str, about: str | None, base: Any = None, /, **members: Any) -> Any:
    """A schema with these members, all present in a response; structs among their types become schemas.

    A member is its type, or a pair of type and description.
    """
    fields: dict[str, Any] = {}
    for key, member in members.items():
        kind, text = member if isinstance(member, tuple) else (member, None)
        fields[key] = (_kind(kind), Field(description=text))
    if base is not None and base.__name__ in _STRUCTS:
        _STRUCTS[name] = _STRUCTS[base.__name__]
    return create_model(name, __doc__=about, __base__=base, **fields)


def schema_of(struct: type, *, name: str = "", without: frozenset[str] = frozenset(), **changed: Any) -> Any:
    """The schema of a struct's document. `changed`: members that a route adds or replaces, with their types."""
    fields = {one.encode_name: one.type for one in msgspec.structs.fields(struct) if one.name not in without}
    name = name or f"{struct.__name__}Document"
    _STRUCTS[name] = struct
    return _MADE.setdefault(struct, document(name, struct.__doc__, **(fields | changed)))


def _kind(kind: Any) -> Any:
    """The type of a member: structs become schemas, also within lists, maps and unions."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _MADE.get(kind) or schema_of(kind)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is None or origin is Literal:
        return kind
    if origin in (Union, UnionType):
        return Union[tuple(map(_kind, inner))]  # noqa: UP007  # of types that are only known here
    return origin[tuple(map(_kind, inner))]


def describe(schemas: dict[str, Any]) -> None:
    """Add the docstrings of the structs' fields to generated schemas, where a member has no description."""
    for name, struct in _STRUCTS.items():
        members = schemas.get(name, {}).get("properties", {})
        for field, text in _field_docs(struct).items():
            if field in members:
                members[field].setdefault("description", text)


def _field_docs(struct: type) -> dict[str, str]:
    """The text below each field of a class, from its source: Python keeps it nowhere else."""
    (made,) = ast.parse(textwrap.dedent(inspect.getsource(struct))).body
    assert isinstance(made, ast.ClassDef)
    found = {}
    for field, below in zip(made.body, made.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            found[field.target.id] = inspect.cleandoc(str(ast.literal_eval(below.value))).replace("None", "null")
    return found


def page_of(item: Any, name: str = "", about: str = "", **more: Any) -> Any:
    """A page of a list of documents. `more`: what it has beside its items, with types."""
    page: Any = Page.__class_getitem__(item)
    return document(name, about, page, **more) if name else page


SessionDocument = schema_of(SessionInfo, name="SessionDocument", without=NOT_IN_SESSION)
CheckpointDocument = schema_of(Checkpoint)
CallDocument = schema_of(Call, without=NOT_IN_CALL)
PlanDocument = schema_of(
    ResumePlan,
    name="PlanDocument",
    effects_since=(list[Call] | None, "`once` calls that ran after the checkpoint: no rewind undoes them"),
    rewind_calls=(
        list[PlannedCall] | None,
        "the same after a rewind to the checkpoint; null if a newer step is damaged",
    ),
    fork_calls=(list[PlannedCall] | None, "the same in a fork of the checkpoint; null if a newer step is damaged"),
)
StartedDocument = schema_of(
    StartOutcome,
    name="StartedDocument",
    session=SessionDocument,
    program=(int | None, "pid of the program"),
    pid=(int | None, "pid of the supervisor; null while queued"),
)
EventDocument = schema_of(Event)
FileDocument = schema_of(FileDiff, name="FileDocument")
BranchDocument = schema_of(Branch)
StoppedDocument = schema_of(Stopped)
RemovedDocument = schema_of(Removed)
ForgottenDocument = schema_of(Forgotten)
AdoptableDocument = schema_of(Adoptable)
LeaseDocument = schema_of(LeaseInfo, name="LeaseDocument")
SessionsPage = page_of(
    SessionDocument,
    "SessionsPage",
    "A page of sessions; `counts` has all of them by stored status, regardless of the filters.",
    counts=dict[str, int],
)
HitsPage = page_of(
    schema_of(Hit), "HitsPage", "Hits of a search; `count` is the number of all hits, not of this page.", count=int
)
FoundPage = page_of(
    schema_of(SearchHit, name="FoundDocument", ref=(str, "the reference that other routes take")),
    "FoundPage",
    "What a search over all sessions found, newest first; `note` says what was not searched, if not `complete`.",
    complete=bool,
    note=str,
)
AttentionPage = page_of(
    SessionDocument,
    "AttentionPage",
    "The most urgent sessions that need a person; `total` is the number of all of them, `counts` the same by kind.",
    counts=dict[str, int],
)
_GONE_ON: Final[dict[str, Any]] = {
    "started": (StartedDocument | None, "the start, if `resume` asked for one and it was possible"),
    "not_started": (str | None, "why it was not started, or who continues it instead"),
}
SentDocument = document(
    "SentDocument",
    "`checkpoint` holds the message; null if it was typed to a running agent.",
    session=str,
    delivered=bool,
    checkpoint=Checkpoint | None,
    **_GONE_ON,
)
DecidedDocument = document("DecidedDocument", None, CheckpointDocument, **_GONE_ON)
AcknowledgedDocument = document(
    "AcknowledgedDocument",
    "Whether a session's reason to need a person is acknowledged; `until` is null if it holds until something new.",
    session=str,
    acknowledged=bool,
    until=datetime | None,
)
_AT: Final = frozenset({"at_us"})
UpkeepDocument = document(
    "UpkeepDocument",
    "Results of the daily upkeep; null: there was none yet.",
    verified=schema_of(Verified, without=_AT, at=datetime) | None,
    drilled=schema_of(Drill, without=_AT, at=datetime) | None,
    growth=Growth | None,
)


class ProblemDocument(BaseModel):
    """A problem document (RFC 9457) with a stable code, evidence and hints."""

    type: str = Field(examples=["urn:relight:problem:RL-2001"])
    title: str = Field(examples=["not found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["no session matches 'fix-logn'"])
    code: str = Field(examples=["RL-2001"])
    instance: str | None = Field(default=None, description="path of the request", examples=["/api/sessions/fix-logn"])
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


GENERAL_EVENTS: Final = {
    "session": "SessionEvent",
    "counts": "CountsEvent",
    "reload": "ReloadEvent",
    "over": "OverEvent",
}
SESSION_EVENTS: Final = {"step": "EventDocument", "reload": "ReloadEvent", "over": "OverEvent"}
"""name of an event -> schema of its data, which is one JSON document"""


def event_schemas(schemas: dict[str, Any]) -> dict[str, Any]:
    """The schemas of the events of both streams; `schemas`: those of the documents."""
    brief = {name: schemas["SessionDocument"]["properties"][name] for name in BRIEF}
    why = {"type": "string", "description": "the session was removed or is damaged, or the server is shutting down"}
    return {
        "SessionEvent": {
            "description": "A session that changed: the whole document, or with `brief` a few members of it.",
            "anyOf": [
                {"$ref": "#/components/schemas/SessionDocument"},
                {"type": "object", "properties": brief, "required": list(BRIEF)},
            ],
        },
        "CountsEvent": {
            "description": "Number of sessions by stored status.",
            "type": "object",
            "additionalProperties": {"type": "integer"},
        },
        "ReloadEvent": {"description": "Events were missed: read everything again.", "type": "object"},
        "OverEvent": {
            "description": "The stream has ended.",
            "type": "object",
            "properties": {"why": why},
            "required": ["why"],
        },
    }


class FilesReportDocument(BaseModel):
    """What a restore did or would do, by root; `step` is null if nothing was committed."""

    session: str
    dry_run: bool
    step: str | None
    head: int
    plans: dict[str, Any]


class RetentionDocument(BaseModel):
    """The retention policy of the store."""

    retention: str | None
    """`7d`, `off`, or null: not set; nothing is removed automatically"""
    finished_days: float | None
    set_by: str | None
    set_at: datetime | None
    last_sweep_at: datetime | None


class PauseDocument(BaseModel):
    """Whether everything is paused, and after a pause what became of what ran."""

    pause: dict[str, Any] | None
    """since when (`at_us`), by whom (`by`) and why (`reason`); null: nothing is paused"""
    ended: list[str]
    """ids of sessions whose programs have ended"""
    running: list[str]
    """ids of sessions that still run: elsewhere, or not started by relight"""


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
