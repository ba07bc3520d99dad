"""`POST /api/sessions/{ref}/...`: everything that can be done to a session. Each runs one library method, audited."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from relight.errors import PlanMoved, RelightError, ScopeRequired
from relight.history.documents import checkpoint_document, restore_document, session_document
from relight.journal.after_answer import continuation_of, continuation_text
from relight.library.facade import Relight
from relight.server.actions import ActionResult
from relight.server.api.sessions import AgentName, CallbackBody, Limited, Short, Text, check_prompt, started_document
from relight.server.http.guard import principal_of
from relight.server.http.problems import detail_of
from relight.server.http.routes import Body, Ref, answer, post
from relight.server.http.schemas import (
    AcknowledgedDocument,
    CheckpointDocument,
    DecidedDocument,
    FilesReportDocument,
    SentDocument,
    SessionDocument,
    StartedDocument,
    StoppedDocument,
)
from relight.server.service import Served, Service
from relight.values.checkpoint import Checkpoint, at
from relight.values.options import ResumeOptions
from relight.values.snapshot import Choice
from relight.values.status import LIVE

router = APIRouter()


class Why(Body):
    """The reason for a change, recorded in the audit log."""

    why: Short | None = Field(default=None, examples=["the host is gone"])


class StopBody(Why):
    """Options of a stop."""

    tree: bool = Field(default=False, description="Stop the sessions that it spawned, too.")


class ResumeBody(Why, Limited):
    """Options of a resume; all are optional."""

    prompt: Text | None = Field(default=None, examples=["try argon2 instead"])
    restore: bool = Field(default=False, description="recreate a missing workspace and restore its files")
    from_last_good: bool = Field(default=False, description="if the newest step is damaged: from the last good one")
    without_secrets: bool = False
    workspace: Annotated[str, Field(max_length=4000)] | dict[Short, Short] | None = Field(
        default=None, description="from a checkpoint: the new session's directory, which gets the checkpoint's files"
    )
    in_place: bool = Field(
        default=False, description="from a checkpoint: restore the original directory and work there"
    )
    name: Annotated[str, Field(max_length=100)] | None = Field(
        default=None, description="from a checkpoint: name of the new session"
    )
    now: bool = Field(default=False, description="do not wait for a usage limit to end")
    agent: AgentName | None = Field(
        default=None, description="hand the conversation over to this coding agent", examples=["codex"]
    )
    fallback: Annotated[list[AgentName], Field(max_length=10)] | None = Field(
        default=None,
        description="agents that continue after a usage limit, in place of those it had",
        examples=[["pi"]],
    )
    returns: bool | None = Field(default=None, description="with `fallback`: back when the first limit is over")
    retries: Annotated[int, Field(ge=0, le=1000)] | None = None
    queue: Annotated[str, Field(max_length=100)] | None = None
    callback: CallbackBody | None = None


class ForkBody(Why):
    """Name, prompt and workspace of the new session."""

    name: Annotated[str, Field(max_length=100)] | None = None
    prompt: Text | None = None
    edit: Text | None = Field(
        default=None, description="another text for the last message or tool result of the checkpoint"
    )
    workspace: Annotated[str, Field(max_length=4000)] | None = Field(
        default=None, description="a new directory, filled with the checkpoint's files"
    )


class RewindBody(Why):
    """What to rewind; `scope` has no default."""

    scope: Literal["conversation", "files", "both"] | None = None
    choice: Choice = "stop"
    take: Annotated[list[Annotated[str, Field(max_length=4000)]], Field(max_length=10_000)] = Field(
        default=[], description="files for which the checkpoint wins, whatever `choice` says about the others"
    )
    stop: bool = Field(default=False, description="stop the session first if it is running")
    again: Annotated[list[Annotated[str, Field(max_length=1000)]], Field(max_length=1000)] = Field(
        default=[], description="ids or keys of calls that are open there and may run again, under new keys"
    )


class RestoreBody(Why):
    """Which files to restore, and what to do about files that were changed meanwhile."""

    paths: Annotated[list[Annotated[str, Field(max_length=4000)]], Field(max_length=10_000)] = Field(default=[])
    choice: Choice = "stop"
    exact: bool = False
    dry_run: bool = False


class UndoBody(Why):
    """Undo the last rewind or restore, or redo it."""

    redo: bool = False
    choice: Choice = "stop"
    of: int | None = Field(
        default=None, ge=1, description="the step of the rewind or restore; refused if another one followed it"
    )


class GoOn(Why):
    """Whether to continue the session afterwards."""

    resume: bool = Field(
        default=False, description="then start the session again, if relight can start it; see `started`"
    )


class SendBody(GoOn):
    """A message for the agent."""

    text: Text


class ClearBody(Why):
    """Options of clearing a lease."""

    forget_native: bool = Field(default=False, description="also drop the agent's own session")


class AcknowledgeBody(Why):
    """For how long; without it, until something new happens."""

    hours: Annotated[float, Field(gt=0, le=8784)] | None = Field(default=None, examples=[8])
    withdraw: bool = Field(default=False, description="withdraw an earlier acknowledgement")


class SettleBody(GoOn):
    """The decision about a call in doubt: its result, or that it may run again."""

    call: Short
    result: Any = None
    retry: bool = False


@post(router, "/api/sessions/{ref}/resume", model=StartedDocument, status=201)
def resume(request: Request, served: Served, ref: Ref, body: ResumeBody | None = None) -> Response:
    """Resume a session; `ref@seq` below the head resumes a fork. Answers when it runs, or is queued."""
    return resumed(request, served, ref, body or ResumeBody())


def resumed(request: Request, served: Service, ref: str, body: ResumeBody) -> Response:
    """Resume by the ref of a session or of a checkpoint."""

    def do(rl: Relight) -> ActionResult:
        check_prompt(served, body.prompt)
        started = served.starter.resume(
            rl,
            ref,
            ResumeOptions(**body.model_dump(include=set(ResumeOptions.__struct_fields__)), limits=body.limits()),
            callback=body.callback.url if body.callback else None,
            queue=body.queue,
        )
        title = started.session.title
        return ActionResult(
            document=started_document(started), status=201, session=started.session.id, undo=f"relight stop {title}"
        )

    return served.actions.answer(request, "resume", ref, do, asked=body.model_dump(), why=body.why)


@post(router, "/api/sessions/{ref}/fork", model=SessionDocument, status=201)
def fork(request: Request, served: Served, ref: Ref, body: ForkBody | None = None) -> Response:
    """Create a new session from a checkpoint, or from the head. The original is not changed."""
    body = body or ForkBody()

    def do(rl: Relight) -> ActionResult:
        check_prompt(served, body.prompt)
        made = rl.history.fork(ref, name=body.name, prompt=body.prompt, edit=body.edit, workspace=body.workspace)
        return ActionResult(
            document=session_document(made), status=201, session=made.id, undo=f"relight rm {made.title}"
        )

    return served.actions.answer(request, "fork", ref, do, asked=body.model_dump(), why=body.why)


@post(router, "/api/sessions/{ref}/rewind", model=CheckpointDocument)
def rewind(request: Request, served: Served, ref: Ref, body: RewindBody) -> Response:
    """Rewind a session to a checkpoint: its conversation, its files, or both. No step is deleted."""

    def do(rl: Relight) -> ActionResult:
        if body.scope is None:
            raise ScopeRequired(ref)
        files, conversation = body.scope != "conversation", body.scope != "files"
        stopped = body.stop and _stopped(served, ref)
        try:
            # Stopping appends steps of its own, so the plan hash that the client has seen cannot match any more. It
            # was checked before the stop.
            made = (rl.unpinned if stopped else rl).history.rewind(
                ref, conversation=conversation, files=files, choice=body.choice, take=body.take, again=body.again
            )
        except RelightError as error:
            error.evidence += ("the session was stopped, but not rewound",) if stopped else ()
            raise
        return checkpoint_done(served, made, f"relight undo {_title(served, made)}")

    return served.actions.answer(request, "rewind", ref, do, asked=body.model_dump(), why=body.why)


@post(router, "/api/sessions/{ref}/restore", model=FilesReportDocument)
def restore(request: Request, served: Served, ref: Ref, body: RestoreBody | None = None) -> Response:
    """Restore files to a checkpoint; `dry_run` reports what would be done."""
    body = body or RestoreBody()

    def do(rl: Relight) -> ActionResult:
        report = rl.files.restore(ref, paths=body.paths, choice=body.choice, exact=body.exact, dry_run=body.dry_run)
        return _files_done(served, ref, report, dry_run=body.dry_run)

    if body.dry_run:
        return answer(request, do(served.rl).document)
    return served.actions.answer(request, "restore", ref, do, asked=body.model_dump(), why=body.why)


@post(router, "/api/sessions/{ref}/undo", model=FilesReportDocument)
def undo(request: Request, served: Served, ref: Ref, body: UndoBody | None = None) -> Response:
    """Undo the last rewind or restore; repeated, the one before it. `redo` redoes."""
    body = body or UndoBody()

    def do(rl: Relight) -> ActionResult:
        if body.of is not None:
            rl = rl.unpinned.pinned(ref, rl.runs.plan_hash(ref))
            later = [one.id for one in rl.history.operations(ref) if one.id > body.of]
            if later:
                raise PlanMoved(rl.sessions.get(ref).title, shown=f"@{body.of}", now=f"@{later[-1]}")
        verb = rl.history.redo if body.redo else rl.history.undo
        return _files_done(served, ref, verb(ref, choice=body.choice), dry_run=False)

    return served.actions.answer(
        request, "redo" if body.redo else "undo", ref, do, asked=body.model_dump(), why=body.why
    )


def _files_done(served: Service, ref: str, report: Any, *, dry_run: bool) -> ActionResult:
    info = served.rl.sessions.get(ref)
    step = report.checkpoint.id if report.checkpoint is not None else None
    plans = restore_document(report.plans)
    document = {"session": info.id, "dry_run": dry_run, "step": step, "head": info.head, "plans": plans}
    return ActionResult(document=document, session=info.id, undo=f"relight undo {info.title}")


@post(router, "/api/sessions/{ref}/stop", model=StoppedDocument)
def stop(request: Request, served: Served, ref: Ref, body: StopBody | None = None) -> Response:
    """Stop a running session, with `tree` its children too: ask its processes to end, then kill them. Saved steps are
    kept."""
    tree = body is not None and body.tree

    def do(rl: Relight) -> ActionResult:
        # Unpinned: the process that ends commits steps itself, which a pinned store would refuse as a change.
        stopped = rl.unpinned.runs.stop(rl.sessions.get(ref).id, tree=tree)
        title = served.rl.sessions.get(stopped.session).title
        return ActionResult(
            document=msgspec.to_builtins(stopped), session=stopped.session, undo=f"relight resume {title}"
        )

    return served.actions.answer(request, "stop", ref, do, why=body.why if body else None, asked={"tree": tree})


@post(router, "/api/sessions/{ref}/send", model=SentDocument)
def send(request: Request, served: Served, ref: Ref, body: SendBody) -> Response:
    """Answer a waiting session, store the next prompt of a stopped one, or type to a running agent."""

    def do(rl: Relight) -> ActionResult:
        check_prompt(served, body.text)
        made = rl.runs.send(ref, body.text)
        session = served.rl.sessions.get(ref).id
        checkpoint = checkpoint_document(made) if made is not None else None
        document = {"session": session, "delivered": made is None, "checkpoint": checkpoint}
        return _gone_on(served, rl, ActionResult(document=document, session=session), resume=body.resume)

    return served.actions.answer(request, "send", ref, do, asked=body.model_dump(), why=body.why)


@post(router, "/api/sessions/{ref}/approve", model=DecidedDocument)
def approve(request: Request, served: Served, ref: Ref, body: GoOn | None = None) -> Response:
    """Allow the tool call that the session waits for; valid for this call only."""
    return _decided(request, served, ref, body, allow=True)


@post(router, "/api/sessions/{ref}/deny", model=DecidedDocument)
def deny(request: Request, served: Served, ref: Ref, body: GoOn | None = None) -> Response:
    """Deny the tool call that the session waits for. The agent gets `why` as the reason."""
    return _decided(request, served, ref, body, allow=False)


def _decided(request: Request, served: Service, ref: str, body: GoOn | None, *, allow: bool) -> Response:
    body = body or GoOn()

    def do(rl: Relight) -> ActionResult:
        made = rl.runs.approve(ref) if allow else rl.runs.deny(ref, reason=body.why)
        return _gone_on(served, rl, checkpoint_done(served, made, None), resume=body.resume)

    verb = "approve" if allow else "deny"
    return served.actions.answer(request, verb, ref, do, asked=body.model_dump(), why=body.why)


def _gone_on(served: Service, rl: Relight, done: ActionResult, *, resume: bool) -> ActionResult:
    """The result of an answer, with the start that was asked for. The answer is committed already: a start that is
    refused is reported in `not_started`, and does not fail the request."""
    document = {**done.document, "started": None, "not_started": None}
    if not resume or done.session is None:
        return msgspec.structs.replace(done, document=document)
    info = served.rl.sessions.get(done.session)
    how = continuation_of(info)
    if how != "start":
        document["not_started"] = continuation_text(how, info)
        return msgspec.structs.replace(done, document=document)
    try:
        # Unpinned: the answer itself was the change that the plan hash guards against.
        document["started"] = started_document(served.starter.resume(rl.unpinned, info.id))
    except RelightError as error:
        document["not_started"] = detail_of(error)
    return msgspec.structs.replace(done, document=document, undo=f"relight stop {info.title}")


@post(router, "/api/sessions/{ref}/settle", model=DecidedDocument)
def settle(request: Request, served: Served, ref: Ref, body: SettleBody) -> Response:
    """Settle a call in doubt (it is not known whether it took effect)."""

    def do(rl: Relight) -> ActionResult:
        made = rl.runs.settle(ref, body.call, result=body.result, retry=body.retry)
        return _gone_on(served, rl, checkpoint_done(served, made, None), resume=body.resume)

    return served.actions.answer(request, "settle", ref, do, asked=body.model_dump(), why=body.why)


@post(router, "/api/sessions/{ref}/acknowledge", model=AcknowledgedDocument)
def acknowledge(request: Request, served: Served, ref: Ref, body: AcknowledgeBody | None = None) -> Response:
    """Acknowledge why a session needs a person: it is not counted as such until something new happens, or for `hours`.
    The session is not changed."""
    body = body or AcknowledgeBody()

    def do(rl: Relight) -> ActionResult:
        session = rl.sessions.get(ref).id
        made = None
        if body.withdraw:
            rl.sessions.remind(ref)
        else:
            made = rl.sessions.acknowledge(ref, seconds=body.hours * 3600 if body.hours is not None else None)
        until = at(made.until_us) if made is not None and made.until_us is not None else None
        document = {"session": session, "acknowledged": made is not None, "until": until}
        return ActionResult(document=document, session=session, undo=f"relight acknowledge {session[:12]} --off")

    return served.actions.answer(request, "acknowledge", ref, do, asked=body.model_dump(), why=body.why)


@post(router, "/api/sessions/{ref}/archive", model=CheckpointDocument)
def archive(request: Request, served: Served, ref: Ref, body: Why | None = None) -> Response:
    """Archive a session: it stays readable, cannot be resumed, and can be forked."""

    def do(rl: Relight) -> ActionResult:
        made = rl.sessions.archive(ref)
        return checkpoint_done(served, made, f"relight fork {made.session[:12]}")

    return served.actions.answer(request, "archive", ref, do, why=body.why if body else None)


@post(router, "/api/sessions/{ref}/clear", model=CheckpointDocument, scope="admin")
def clear(request: Request, served: Served, ref: Ref, body: ClearBody | None = None) -> Response:
    """Revoke the lease of a stuck session. If its owner is alive after all, its next write is refused."""
    body = body or ClearBody()
    who = principal_of(request).name

    def do(rl: Relight) -> ActionResult:
        made = rl.admin.release(ref, why=body.why, who=who, forget_native=body.forget_native)
        return checkpoint_done(served, made, f"relight resume {_title(served, made)}")

    return served.actions.answer(request, "clear", ref, do, asked=body.model_dump(), why=body.why)


@post(router, "/api/sessions/{ref}/accept-repository", model=CheckpointDocument)
def accept_repository(request: Request, served: Served, ref: Ref, body: Why | None = None) -> Response:
    """Accept the present commit of the workspace's repository; a start refuses a repository that has moved."""

    def do(rl: Relight) -> ActionResult:
        return checkpoint_done(served, rl.files.accept_repository(ref), None)

    return served.actions.answer(request, "accept-repository", ref, do, why=body.why if body else None)


def checkpoint_done(served: Service, made: Checkpoint, undo: str | None) -> ActionResult:
    """The result of a change that committed one checkpoint."""
    return ActionResult(document=checkpoint_document(made), session=made.session, undo=undo)


def _stopped(served: Service, ref: str) -> bool:
    """Stop the session of an existing checkpoint if it is running; whether it was."""
    session = served.rl.history.checkpoint(ref).session
    if served.rl.sessions.get(session).status not in LIVE:
        return False
    served.rl.runs.stop(session)
    return True


def _title(served: Service, made: Checkpoint) -> str:
    return served.rl.sessions.get(made.session).title
