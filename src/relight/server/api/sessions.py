"""`/api/sessions`: list, get, start and remove sessions. `/api/attention`: those that need a person."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from relight.errors import UsageError
from relight.history.documents import outcome_document, session_document
from relight.history.listing import NEWEST, microseconds, place_of
from relight.library.facade import Relight
from relight.server.actions import ActionResult, version_of
from relight.server.http.routes import (
    Body,
    Cursor,
    Ref,
    answer,
    delete,
    from_cursor,
    get,
    page_document,
    patch,
    post,
    to_cursor,
)
from relight.server.http.schemas import AttentionPage, RemovedDocument, SessionDocument, SessionsPage, StartedDocument
from relight.server.service import Served, Service
from relight.server.starting import Started
from relight.sessions.limits import allowance
from relight.values.execution import agent_of
from relight.values.options import RunOptions
from relight.values.outcome import StartOutcome
from relight.values.policy import Allowance, RunPolicy
from relight.values.status import LIVE, STATUSES, Status

router = APIRouter()
_MAX_ARGUMENTS: Final = 1000
Text = Annotated[str, Field(max_length=100_000)]
Short = Annotated[str, Field(max_length=500)]
AgentName = Annotated[str, Field(max_length=50, pattern=r"^[a-z][a-z0-9_-]*$")]
"""the name alone: a command line is given by those who may start any program"""
Limit = Annotated[int, Query(ge=1, le=500, description="Items per page.")]
Moment = Annotated[str, Query(max_length=40, examples=["8h", "2026-11-15T05:44:51Z"])]
Since = Annotated[Moment | None, Query(description="From that time on: ISO 8601, or an age such as 30m, 8h, 2d, 1w.")]
Sort = Literal["created", "-created", "updated", "-updated", "name", "-name", "cost", "-cost", "steps", "-steps"]
PLACES: Final = {"created": int, "updated": int, "name": str, "cost": float, "steps": int}
"""by what a list is sorted -> type of the value in a cursor"""
_AGE: Final = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Limited(Body):
    """Limits of a session, over all its attempts; it is halted when it reaches one."""

    budget: Annotated[float, Field(gt=0)] | None = Field(default=None, description="maximum cost in US dollars")
    budget_tokens: Annotated[int, Field(gt=0)] | None = Field(default=None, description="maximum number of tokens")
    time_limit: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="maximum working time in seconds"
    )

    def limits(self) -> Allowance:
        """The limits that were given."""
        return allowance(budget=self.budget, budget_tokens=self.budget_tokens, time_limit=self.time_limit)


class CallbackBody(Body):
    """A public address that gets a signed POST when the session completes, fails, halts or waits."""

    url: Annotated[str, Field(max_length=2000, examples=["https://example.com/hook"])]


class NewSession(Limited):
    """A session to start: a command, or an agent with a prompt."""

    command: Annotated[list[Text], Field(max_length=_MAX_ARGUMENTS)] | None = Field(
        default=None, examples=[["python", "agent.py"]]
    )
    agent: Annotated[str, Field(max_length=100)] | None = Field(default=None, examples=["claude"])
    prompt: Text | None = None
    name: Annotated[str, Field(max_length=100)] | None = Field(default=None, examples=["nightly"])
    directory: Annotated[str, Field(max_length=4000)] | None = None
    workspace: Annotated[str, Field(max_length=4000)] | dict[Short, Short] | None = None
    runtime: Annotated[str, Field(max_length=100)] = "process"
    labels: dict[Short, Short] = Field(default={})
    env: dict[Short, Annotated[str, Field(max_length=65536)]] = Field(
        default={}, description="environment variables of every start; stored with the session, so no secrets"
    )
    secrets: Annotated[list[Short], Field(max_length=200)] = Field(
        default=[], description="names of variables that every start requires; their values are never stored"
    )
    queue: Annotated[str, Field(max_length=100)] | None = None
    approve: Annotated[list[Short], Field(max_length=100)] = Field(default=[])
    approve_within: Annotated[float, Field(gt=0, le=1e9)] | None = Field(
        default=None, description="seconds after which an approval that was not given or used is a denial; a week"
    )
    retries: Annotated[int, Field(ge=0, le=1000)] | None = None
    fallback: Annotated[list[AgentName], Field(max_length=10)] = Field(
        default=[],
        description="coding agents that continue, in this order, after a usage limit, an overloaded provider or a"
        " refused key",
        examples=[["codex"]],
    )
    returns: bool = Field(default=False, description="with `fallback`: back when the first limit is over")
    windows: Annotated[int, Field(ge=1)] | None = Field(default=None, description="halt at its Nth usage limit")
    quiet_hours: Annotated[str, Field(max_length=20)] | None = Field(
        default=None, description="local time in which it does not run", examples=["22:00-07:00"]
    )
    library: bool = Field(default=False, description="the program opens its session with relight; needed for a budget")
    callback: CallbackBody | None = None


@get(router, "/api/sessions", model=SessionsPage)
def list_sessions(
    request: Request,
    served: Served,
    limit: Limit = 100,
    cursor: Cursor = None,
    agent: Annotated[str | None, Query(max_length=200)] = None,
    provider: Annotated[str | None, Query(max_length=200)] = None,
    status: Annotated[
        str | None,
        Query(
            description="Derived status, or several with commas: a dead `working` session is `terminated`.",
            pattern=f"^({'|'.join(STATUSES)})(,({'|'.join(STATUSES)}))*$",
            examples=["failed,halted"],
        ),
    ] = None,
    label: Annotated[
        list[str] | None, Query(description="KEY=VALUE; repeat for several labels.", max_length=20)
    ] = None,
    key: Annotated[str | None, Query(max_length=500)] = None,
    q: Annotated[str | None, Query(description="In name, id, key, task, labels.", max_length=200)] = None,
    since: Since = None,
    until: Annotated[Moment | None, Query(description="Created before that time, or longer ago.")] = None,
    sort: Annotated[
        Sort, Query(description="With a minus downwards. All but `-created` read every session, except in SQLite.")
    ] = NEWEST,
    archived: Annotated[bool, Query(description="False: without archived ones.")] = True,
) -> Response:
    """List the sessions that match all filters, newest created first or by `sort`."""
    asked = [one for one in STATUSES if one in status.split(",")] if status else list(STATUSES)
    statuses = [one for one in asked if archived or one != "archived"]
    now = served.clock.now_us()
    filters: dict[str, Any] = {
        "agent": agent,
        "provider": provider,
        "status": statuses if len(statuses) < len(STATUSES) else None,
        "key": key,
        "labels": _pairs(label or []),
        "search": q or None,
        "since_us": moment(since, now),
        "until_us": moment(until, now),
    }
    kind = PLACES[sort.removeprefix("-")]
    before = from_cursor(cursor, str, kind, str) if cursor is not None else None
    if before is not None and before[0] != sort:
        raise UsageError("the cursor belongs to a list in another order", hints=["leave out `cursor`, or keep `sort`"])
    infos = list(served.rl.sessions.list(**filters, sort=sort, before=before and before[1:], limit=limit + 1))
    counts = served.rl.sessions.counts()
    shown, more = infos[:limit], len(infos) > limit
    return answer(
        request,
        page_document(
            [session_document(info) for info in shown],
            to_cursor(sort, *place_of(shown[-1], sort)) if more else None,
            total=_total(counts, filters),
            cursor=cursor,
            counts=counts,
        ),
    )


def _total(counts: Mapping[Status, int], filters: Mapping[str, Any]) -> int | None:
    """How many match, where the counts of the store say it: whether a running session is dead, they do not."""
    statuses = filters["status"] or STATUSES
    if any(value for name, value in filters.items() if name != "status"):
        return None
    if filters["status"] and not {*LIVE, "terminated"}.isdisjoint(statuses):
        return None
    return sum(counts.get(one, 0) for one in statuses)


def moment(given: str | None, now_us: int) -> int | None:
    """A time in microseconds since 1970, given as such a time (one without a zone is UTC) or as an age."""
    if given is None:
        return None
    if (age := _AGE.fullmatch(given)) is not None:
        return max(0, now_us - int(age[1]) * _SECONDS[age[2]] * 1_000_000)
    try:
        time = datetime.fromisoformat(given)
        return max(0, microseconds(time if time.tzinfo else time.replace(tzinfo=UTC)))
    except (ValueError, OverflowError):
        raise UsageError(f"not a time: {given!r}", hints=["for example 2026-11-15T05:44:51Z, or 8h ago: 8h"]) from None


def _pairs(labels: list[str]) -> dict[str, str]:
    pairs = {}
    for one in labels:
        name, separator, value = one.partition("=")
        if not separator or not name:
            raise UsageError(f"a label is KEY=VALUE, not {one[:100]!r}")
        pairs[name] = value
    return pairs


@get(router, "/api/attention", model=AttentionPage)
def attention(request: Request, served: Served, limit: Limit = 5) -> Response:
    """Count the sessions that need a person, and list the `limit` most urgent."""
    found = served.rl.sessions.needing(most=limit)
    items = [session_document(info) for info in found.sessions[:limit]]
    return answer(request, page_document(items, None, total=found.total, counts=found.counts))


@get(router, "/api/sessions/{ref}", model=SessionDocument, errors=(404, 409))
def get_session(request: Request, served: Served, ref: Ref) -> Response:
    """Get one session by its ref. Its ETag as `If-Match` makes a change depend on this state."""
    # The version is read first: a step in between makes a change with this ETag fail, and not pass.
    version = version_of(served.rl, ref)
    return answer(request, session_document(served.rl.sessions.get(ref)), version=version)


@post(router, "/api/sessions", model=StartedDocument, scope="admin", status=201, errors=(409,))
def start_session(request: Request, served: Served, body: NewSession) -> Response:
    """Create a session and start or enqueue it. It runs with the server's rights, hence the scope `admin`."""

    def do(rl: Relight) -> ActionResult:
        check_prompt(served, body.prompt)
        command = body.command or rl.runs.command(body.agent, body.prompt)
        workspace = {"main": body.workspace} if isinstance(body.workspace, str) else body.workspace or {}
        options = RunOptions(
            directory=body.directory or next(iter(workspace.values()), None) or os.getcwd(),
            agent=body.agent or agent_of(command[0]),
            workspace=workspace,
            policy=body.limits().on(
                RunPolicy(
                    approve=tuple(body.approve),
                    fallback=tuple(body.fallback),
                    **body.model_dump(
                        include={"approve_within", "retries", "library", "returns", "windows", "quiet_hours"}
                    ),
                )
            ),
            **body.model_dump(include={"name", "runtime", "labels", "env", "secrets"}),
        )
        started = served.starter.start(
            command,
            options,
            queue=body.queue,
            prompt=body.prompt if body.command else None,
            callback=body.callback.url if body.callback else None,
        )
        return ActionResult(
            document=started_document(started),
            status=201,
            session=started.session.id,
            undo=f"relight stop {started.session.title}",
        )

    return served.actions.answer(request, "start", None, do, asked=body.model_dump())


class SessionChanges(Body):
    """What to change; what is left out stays."""

    name: Annotated[str, Field(max_length=100, examples=["nightly-2"])] | None = None
    labels: dict[Short, Short | None] = Field(default={}, description="label to its new value; null removes it")


@patch(router, "/api/sessions/{ref}", model=SessionDocument)
def update_session(request: Request, served: Served, ref: Ref, body: SessionChanges) -> Response:
    """Rename a session, or change its labels. Its steps stay as they are."""

    def do(rl: Relight) -> ActionResult:
        info = rl.sessions.update(ref, name=body.name, labels=body.labels)
        return ActionResult(document=session_document(info), session=info.id)

    return served.actions.answer(request, "update", ref, do, asked=body.model_dump())


def check_prompt(served: Service, prompt: str | None) -> None:
    """UsageError unless a prompt can become a command-line argument: not empty, bounded, without NUL."""
    if prompt is None:
        return
    if not prompt or "\0" in prompt:
        raise UsageError("a prompt must not be empty or contain a NUL character")
    if len(prompt.encode("utf-8")) > served.settings.prompt_bytes:
        raise UsageError(f"a prompt has at most {served.settings.prompt_bytes:,} bytes")


@delete(router, "/api/sessions/{ref}", model=RemovedDocument)
def remove_session(
    request: Request,
    served: Served,
    ref: Ref,
    with_forks: bool = False,
    with_children: bool = False,
    dry_run: bool = False,
) -> Response:
    """Remove a session and all its data. Cannot be undone; `dry_run` reports what would be removed."""

    below = {"with_forks": with_forks, "with_children": with_children}

    def do(rl: Relight) -> ActionResult:
        removed = rl.sessions.remove(ref, **below, dry_run=dry_run)
        return ActionResult(document=msgspec.to_builtins(removed))

    if dry_run:
        return answer(request, do(served.rl).document)
    return served.actions.answer(request, "remove", ref, do, asked=below)


def started_document(started: Started) -> dict[str, Any]:
    """The outcome of a start as JSON, with the session as it is now and its supervisor."""
    info = started.session
    if started.outcome is not None:
        came = outcome_document(started.outcome)
    else:
        came = {**dict.fromkeys(StartOutcome.__struct_fields__), "in_doubt": [], "orphans": [], "prompt_sent": False}
        came |= {"status": info.status, "reason": info.reason, "attempt": info.attempt, "name": info.name}
        came |= {"workspace": info.workspace, "wake_at": info.wake_at, "resumed_from": info.resumed_from}
    return {**came, "session": session_document(info), "program": came["pid"], "pid": started.pid}
