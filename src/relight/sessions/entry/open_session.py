"""Opening a session for a program: by name, by id, at a checkpoint, or as the child of another session.

    find or create (opening.py, children.py) -> check the options (reopening.py) -> open its files -> claim, begin

A completed session is opened for reading: nothing is claimed, nothing runs again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from relight.errors import Conflict, Finished, NotFound, UsageError, WorkspaceUnusable
from relight.history.loading import Found, readable_head, resolve
from relight.journal.jsonable import check_text
from relight.journal.redaction.recorded_fields import refuse_secret
from relight.sessions import limits, opening
from relight.sessions.context import Context
from relight.sessions.entry.options import SessionOptions, refuse_unknown
from relight.sessions.recorder import Recorder
from relight.sessions.session import Session, writer_of
from relight.system.lazy_module import LazyModule
from relight.values.policy import RunPolicy
from relight.values.session import Identity

if TYPE_CHECKING:
    from relight.files import capture, restore, workspace_check
    from relight.sessions.entry import children, reopening
    from relight.sessions.entry.reopening import Taken
else:  # for a session with files, for a child, for one that exists
    capture, restore, workspace_check = (
        LazyModule(f"relight.files.{name}") for name in ("capture", "restore", "workspace_check")
    )
    children, reopening = (LazyModule(f"relight.sessions.entry.{name}") for name in ("children", "reopening"))


def open_session(
    context: Context,
    name: str,
    *,
    resume: bool = True,
    parent: Session | str | None = None,
    child: children.ChildOf | None = None,
    **options: Unpack[SessionOptions],
) -> Session:
    """Open a session by name or ref: new, or exactly where it stopped. With a `parent`: its child.

    `child`: the same, for a parent that is open in this process and records the spawn.
    """
    refuse_unknown(options, "session" if child is None else "spawn")
    fields = opening.checked_fields(
        labels=options.get("labels"),
        metadata=options.get("metadata"),
        **{what: options.get(what) for what in ("agent", "provider", "model", "task", "key")},  # type: ignore[arg-type]
    )
    asked_seconds = options.get("lease_seconds")
    seconds = opening.checked_seconds(
        opening.lease_seconds_of(context.environment) if asked_seconds is None else asked_seconds
    )
    allowed = limits.allowance(**{what: options.get(what) for what in ("budget", "budget_tokens", "time_limit")})
    check_text(name, "the name")
    refuse_secret(options.get("key"), "the key", context.redactor)  # here, where nothing has changed yet
    if parent is not None:
        child = children.of_session(context, parent, name)
    found, owner = opening.take_inherited(context, name) if child is None or child.writer is None else (None, None)
    handed = found is not None
    if found is not None and child is not None:
        children.refuse_other_parent(found, child)
    elif child is not None:
        if not resume:
            raise UsageError("a child is begun once: resume=False needs another name")
        found, context = children.find(context, child, name)
    elif found is None:
        found, context = _existing(context, name)
    workspace, snapshot, redact = options.get("workspace"), options.get("snapshot"), options.get("redact")
    if found is None or (not resume and not handed):
        fields |= {"policy": allowed.on(RunPolicy()), "redact": bool(redact), **opening.here()}
        identity = _new_identity(context, name, fields, child, options)
        if child is not None:
            children.announce(context, child, identity)
        former = found if child is None and found is not None and found.identity.name == name else None
        try:
            with opening.released_name(context, former) if former is not None else nullcontext():
                found, taken = opening.create(context, identity), None
        except Conflict:
            # Another process or thread created the name after we looked: then it is that session that is opened.
            if not resume or identity.name is None or context.store.find_named(identity.name) is None:
                raise
            return open_session(context, name, resume=True, parent=parent, child=child, **options)
    else:
        opening.refuse_archived(found)
        opening.refuse_untrusted(found)
        opening.refuse_subagent(found.identity)
        below = child is not None and child.parent.redact
        fields |= opening.redaction_option(found, True if below and redact is None else redact)
        asked = fields | {"policy": limits.policy_with(context, found.identity, allowed, model=options.get("model"))}
        taken = reopening.take(context, found, asked, workspace, snapshot, handed=handed)
        if found.head is not None and found.head.status != "completed":  # that one is opened to read
            limits.check_priced(context, taken.found.identity, found.head, before=found.identity)
        found = taken.found
    return _begun(context, found, seconds=seconds, owner=owner, taken=taken)


def _new_identity(
    context: Context, name: str, fields: dict[str, Any], child: children.ChildOf | None, options: SessionOptions
) -> Identity:
    """The identity of a session that is about to be created, its options checked together."""
    identity = opening.new_identity(context, name, fields)
    if child is not None:
        identity = child.identity(identity)
    if options.get("redact") is False and identity.redact:
        hints = ["leave out redact, or begin a session of its own"]
        raise UsageError("redact=False: its parent has redact=True, and so have its children", hints=hints)
    limits.check_priced(context, identity, None)
    workspace, snapshot = options.get("workspace"), options.get("snapshot")
    if workspace is not None or snapshot is not None:
        identity = capture.fitted(context, identity, workspace, snapshot)
    return identity


def _begun(context: Context, found: Found, *, seconds: float, owner: str | None, taken: Taken | None) -> Session:
    """Claim a session and begin an attempt; a completed one is opened for reading only."""
    recorder = opening.recorder_for(context, found)
    later = partial(_files, context, found, taken)
    if recorder.head.status == "completed":
        _record_options(context, taken)
        return Session(context, recorder, lease_seconds=seconds, open_files=later, opens=open_session)
    try:
        directories = workspace_check.first_directories(context, found) if found.identity.workspace else nullcontext()
        with directories:
            note = taken.note if taken is not None else None
            made = _opened(context, later, recorder, seconds, owner, note)
    except Finished:
        _record_options(context, taken)  # its owner woke up and completed it
        return Session(context, recorder, lease_seconds=seconds, open_files=later, opens=open_session)
    try:
        _record_options(context, taken)
    except BaseException as error:
        made.__exit__(type(error), error, None)  # it is ours by now: the lease is given back with the reason
        raise
    return made


def _record_options(context: Context, taken: Taken | None) -> None:
    """Write the applied options; a new session has recorded them with its identity."""
    if taken is not None:
        reopening.record_options(context, taken.found.identity.id, taken.changed)


def _opened(
    context: Context,
    open_files: Callable[[], capture.Files | None],
    recorder: Recorder,
    seconds: float,
    owner: str | None,
    note: dict[str, Any] | None,
) -> Session:
    """Open it with its attempt begun and its files watched."""
    # Before the claim: an unusable workspace must not cost an attempt.
    opened = open_files()
    try:
        made = Session(context, recorder, lease_seconds=seconds, files=opened, opens=open_session)
    except BaseException:
        if opened is not None:
            opened.close()
        raise
    try:
        writer_of(made).reopen(handed_over_by=owner, note=note)
    except BaseException as error:
        writer_of(made).left(error)  # an interrupt can arrive when the claim is committed already
        raise
    return made


def _files(context: Context, found: Found, taken: Taken | None) -> capture.Files | None:
    """The session's open workspaces; unusable ones and moved repositories are refused before any change."""
    if not found.identity.workspace:
        return None
    rows = restore.rows_of(context, found)
    last = restore.snapshots_at(rows, found.whole_head().head)
    if taken is not None and taken.before is not None and last:
        from relight.files import repositories  # imported late: only for a workspace that was captured before

        repositories.check_opening(context, found, before=taken.before, rows=rows)
    try:
        return capture.Files(context, found.identity, last)
    except WorkspaceUnusable as error:
        raise error if last else capture.never_captured(context, found.identity, error) from None


def _existing(context: Context, name: str) -> tuple[Found | None, Context]:
    """By id or name; `name@seq` before the head is a fork, which is created with its first attempt."""
    if "@" not in name:
        return opening.find_existing(context, name), context
    try:
        found = resolve(context.store, name)
    except NotFound as error:
        error.hints = (*error.hints, "the name of a new session has no @: NAME@SEQ and NAME@LABEL are checkpoints")
        raise
    if found.seq is None or found.seq == readable_head(context.store, found).head:
        return found, context
    from relight.history.fork import plan_fork  # imported late: most sessions are opened at their head
    from relight.sessions.pending_store import with_pending

    opening.refuse_untrusted(found)
    fork = plan_fork(context, found)
    return Found(identity=fork.identity, head=fork.head, seq=None), with_pending(context, fork)
