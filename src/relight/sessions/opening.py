"""Opening: from a name to a session that may be written, new or exactly where it stopped.

    find -> refuse archived -> gather evidence about the owner -> claim and begin the attempt, in one commit

The claim names the epoch under which the evidence was gathered, so of two processes that open at once one wins and the
other gets LeaseHeld. Nothing is repaired here: open calls stay open until the program or its model deals with them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from relight.errors import Conflict, Finished, LeaseHeld, NotFound, NotResumable, RelightError, UsageError
from relight.history.loading import Found, by_prefix, load, resolve
from relight.journal import leases
from relight.journal.codec import isolated
from relight.journal.jsonable import check_text
from relight.journal.status import Evidence, derived_status
from relight.ports import faults
from relight.sessions import names
from relight.sessions.context import Context
from relight.sessions.names import find_exactly, find_former
from relight.values.checkpoint import at
from relight.values.policy import RunPolicy
from relight.values.ref import OPENING_PREFIX_MIN, check_session_name, composed
from relight.values.session import Head, Identity
from relight.values.status import Status, StatusChange
from relight.values.step import Changes, Claim

if TYPE_CHECKING:
    from relight.journal.fold import Fold
    from relight.sessions.coroutines import Program
    from relight.sessions.recorder import Recorder

_T = TypeVar("_T")
LEASE_SECONDS: Final = 30.0
IMPORTED: Final = "imported"
"""label that marks an imported session as trusted or untrusted"""
CLAIM_TRIES: Final = 5
FIRST_PAUSE_SECONDS: Final = 0.05
MAX_PAUSE_SECONDS: Final = 0.5
"""between two attempts to claim a session that another process owns"""
_MAX_LEASE_SECONDS: Final = 1e9


def evidence_of(context: Context, head: Head) -> Evidence:
    """What this process can observe about the owner of a session right now."""
    owner = head.lease.owner if head.lease is not None else None
    gone = context.host.is_gone(owner) if owner is not None else None
    if owner is not None and not gone and context.heartbeat.claims.is_abandoned(owner.id):
        gone = context.host.owner(owner.id) == owner  # not in a forked child: there the holder is in the parent
    return Evidence(now=context.store.instant(), now_us=context.clock.now_us(), owner_gone=gone)


def find_existing(context: Context, name: str) -> Found | None:
    """The session with this id or name, else one whose id begins so (at least 8 characters; Ambiguous if several do),
    else the archived session that last had the name."""
    store, name = context.store, composed(name)
    record = find_exactly(store, name) or by_prefix(store, name, least=OPENING_PREFIX_MIN)
    record = record or next(iter(find_former(store, name)), None)
    return Found(identity=record.identity, head=record.head, seq=None) if record is not None else None


def create(
    context: Context,
    identity: Identity,
    *,
    wake_us: int | None = None,
    in_queue: bool = True,
    reason: str | None = None,
) -> Found:
    """Create a session without steps. If it has a queue position, it is queued from this commit on."""
    queue_position = identity.queue_position if in_queue else None
    head = Head(session=identity.id, status="queued", queue_position=queue_position, wake_us=wake_us, reason=reason)
    names.release_archived(context, identity.name)
    context.store.create(identity, head)
    faults.point("session.created")
    return Found(identity=identity, head=head, seq=None)


def new_identity(context: Context, name: str | None, fields: Mapping[str, Any]) -> Identity:
    """A new identity from checked fields; `name` is checked, None stays None."""
    parent = context.inherited.get("parent")
    identity = Identity(
        id=context.entropy.session_id(),
        name=check_session_name(name) if name is not None else None,
        created_us=context.clock.now_us(),
        spawned_by=parent,
        **fields,
    )
    if parent is None or identity.redact or (record := context.store.find(parent)) is None:
        return identity
    return msgspec.structs.replace(identity, redact=record.identity.redact)


def here() -> dict[str, str]:
    """The directory of the program, so that a list can show the sessions of this directory."""
    try:
        return {"directory": os.getcwd()}
    except FileNotFoundError:
        return {}


def checked_fields(
    *, labels: Mapping[str, str] | None, metadata: Mapping[str, Any] | None, **texts: str | None
) -> dict[str, Any]:
    """The given options as identity fields, without those left out. Checked here because a struct would accept any type
    and fail only when it is decoded."""
    fields: dict[str, Any] = {what: check_text(text, what) for what, text in texts.items() if text is not None}
    for what, given in (("labels", labels), ("metadata", metadata)):
        if given is not None and not isinstance(given, Mapping):
            raise UsageError(f"{what} must be a mapping, not {type(given).__name__}")
    if labels:
        fields["labels"] = {check_text(key, "labels"): check_text(labels[key], f"labels.{key}") for key in labels}
    if metadata:
        fields["metadata"] = isolated(dict(metadata), "metadata")
    return fields


def redaction_option(found: Found, redact: bool | None) -> dict[str, bool]:
    """The identity change for `redact`. It cannot be switched off again: readers rely on what was promised."""
    if redact is None:
        return {}
    if not redact and found.identity.redact:
        name = found.identity.name or found.identity.id
        hints = ["leave out redact, or begin another session"]
        raise UsageError(f"{name}: redaction cannot be switched off (opened with redact=True before)", hints=hints)
    return {"redact": redact}


def lease_seconds_of(environment: Mapping[str, str]) -> float:
    """The default duration of a lease, from RELIGHT_LEASE_SECONDS."""
    asked = environment.get("RELIGHT_LEASE_SECONDS")
    try:
        return checked_seconds(float(asked)) if asked else LEASE_SECONDS
    except ValueError:
        raise UsageError(f"RELIGHT_LEASE_SECONDS must be a number of seconds, not {asked!r}") from None


def checked_wait(seconds: float | None) -> float:
    """How long to wait for a session that another process owns; not at all if None."""
    if seconds is None:
        return 0.0
    if type(seconds) not in (int, float) or not 0 <= seconds < _MAX_LEASE_SECONDS:
        raise UsageError(f"wait is a number of seconds, not {seconds!r}")
    return float(seconds)


class _ClaimsLost(Conflict):
    """Others were faster each time, and may hold the session no longer."""


def opened_within(context: Context, wait: float | None, make: Callable[[float], _T]) -> Program[_T]:
    """What `make` opens; while another process holds it, it is tried again for up to `wait` seconds. `make` is given
    those that are left."""
    from relight.sessions.coroutines import Pause  # imported late: a command that only lists opens nothing

    left, pause, clock = checked_wait(wait), FIRST_PAUSE_SECONDS, context.clock
    deadline_us = clock.instant().us + left * 1e6
    while True:
        try:
            return make(left)
        except (LeaseHeld, _ClaimsLost):
            if left <= 0:
                raise
        yield Pause(min(pause, left))
        # By the clock, since opening takes time too; and by the pauses, which end even if the clock does not advance.
        left = min(left - pause, (deadline_us - clock.instant().us) / 1e6)
        pause = min(2 * pause, MAX_PAUSE_SECONDS)


def checked_seconds(lease_seconds: float) -> float:
    """`lease_seconds` if it is a positive number below the bound."""
    if type(lease_seconds) not in (int, float) or not 0 < lease_seconds < _MAX_LEASE_SECONDS:
        raise UsageError(f"lease_seconds must be a number above 0, not {lease_seconds!r}")
    return float(lease_seconds)


def release_name(context: Context, found: Found) -> None:
    """Free the name of this session for another one; the session keeps its id. An archived one is also found by it
    later."""
    names.release_archived(context, found.identity.name)
    context.store.update(found.identity.id, partial(msgspec.structs.replace, name=None))


@contextmanager
def released_name(context: Context, found: Found) -> Iterator[None]:
    """Free the name of this session for the one that is created inside. If that is refused, it has its name as
    before."""
    release_name(context, found)
    try:
        yield
    except BaseException:
        before = {"name": found.identity.name, "former_name": found.identity.former_name}
        with suppress(RelightError):  # another session has the name by now, or the store does not answer
            context.store.update(found.identity.id, lambda now: msgspec.structs.replace(now, **before))
        raise


def take_inherited(context: Context, name: str) -> tuple[Found | None, str | None]:
    """The session that a supervisor handed over to this process, and the owner that holds it; (None, None) if there is
    none, if it was taken before, or if this process is only a descendant of the intended program and opens another
    session."""
    session, owner = context.inherited.pop("session", None), context.inherited.pop("owner", None)
    only_named = context.inherited.pop("named", None) is not None
    record = context.store.find(session) if session is not None else None
    if record is None or session is None:
        return None, None
    found = Found(identity=record.identity, head=record.head, seq=None)
    if only_named:
        lease = found.whole_head().lease
        is_free = lease is not None and lease.owner.id == owner
        if name not in (found.identity.name, session) or not is_free:
            _notify_child(context, found)
            return None, None
    context.inherited.pop("parent", None)
    context.mark_as_program(session)
    return found, owner


def _notify_child(context: Context, parent: Found) -> None:
    title = parent.identity.name or parent.identity.id[:8]
    context.notify(
        f"opened as a separate session: {title} belongs to the program that was started. To continue {title} here,"
        f" start this program with exec, or open the session by that name"
    )


def set_policy(context: Context, recorder: Recorder, policy: RunPolicy) -> None:
    """Change the limits of the session from now on; writes nothing if they are equal."""
    if policy != recorder.identity.policy:
        change = partial(msgspec.structs.replace, policy=policy)
        recorder.identity = context.store.update(recorder.identity.id, change)


def recorder_for(context: Context, found: Found) -> Recorder:
    """A recorder on a verified state, at the head or at the checkpoint found. It owns nothing yet."""
    from relight.sessions.recorder import Recorder  # imported late: commands that only read start faster

    fold = load(context.store, found)
    session = found.identity.id

    def reload() -> Fold:
        return load(context.store, resolve(context.store, session))

    recording = context.recording(found.identity)
    return Recorder(context.store, context.entropy, found.identity, found.whole_head(), fold, reload, recording)


def begin_attempt(
    context: Context,
    recorder: Recorder,
    *,
    seconds: float,
    status: Status = "working",
    handed_over_by: str | None = None,
    handle: str | None = None,
    note: dict[str, Any] | None = None,
    beside: Callable[[Recorder], Changes] | None = None,
    tries: int = CLAIM_TRIES,
    holder: object | None = None,
) -> None:
    """Claim the lease and commit the start of the attempt, with the changes that `beside` adds to the same step.
    `holder`: what alone writes under the claim, if that is not the recorder itself, which the heartbeat's thread may
    reference a moment longer.

    LeaseHeld if another owner holds it, QueueFull if its queue allows no more working sessions, Finished if the owner
    that was presumed dead completed the session before our claim. Conflict if others won all `tries`; the recorder then
    has what they wrote.
    """
    was_completed = recorder.head.status == "completed"
    for _ in range(tries):
        head = recorder.head
        evidence = evidence_of(context, head)
        gone = refuse_if_held(context, recorder.identity, head, evidence, handed_over_by)
        owner = context.host.owner(context.entropy.session_id())
        handed = head.lease is not None and head.lease.owner.id == handed_over_by
        # A supervisor that hands over its lease already holds a slot, and shares its attempt with the program.
        claim = leases.claim_on(head, owner, seconds=seconds, owner_gone=gone, slot=not handed)
        attempt = leases.next_attempt(head, owner, derived_status(head, evidence), handle=handle)
        if handed:
            shared = {"number": head.attempt, "resumed_from": head.resumed_from or 0, "reason": None}
            attempt = msgspec.structs.replace(attempt, **shared)
        faults.point("resume.planned")
        try:
            more = beside(recorder) if beside is not None else Changes()
            changes = msgspec.structs.replace(
                more, attempt=attempt, status=StatusChange(status=status), note=note or more.note
            )
            context.heartbeat.claims.add(owner.id, recorder if holder is None else holder)
            recorder.commit("attempt", changes, claim=claim)
        # Lost the race for the epoch. The evidence was about the former owner, so everything is read and decided again;
        # the bound only stops a livelock among many claimants.
        except Conflict:
            refresh(context, recorder)
            refuse_archived(Found(identity=recorder.identity, head=recorder.head, seq=None))
            if recorder.head.status == "completed" and not was_completed:
                raise Finished(recorder.identity.name or recorder.identity.id, "completed") from None
            continue
        faults.point("resume.claimed")
        return
    name = recorder.identity.name or recorder.identity.id
    raise _ClaimsLost(f"{name}: other processes kept claiming it", hints=["wait for it: session(NAME, wait=10)"])


def own_claim(context: Context, identity: Identity, head: Head, *, seconds: float) -> Claim:
    """A claim by this process on a session as it was read. LeaseHeld if another owner holds it."""
    gone = refuse_if_held(context, identity, head, evidence_of(context, head))
    owner = context.host.owner(context.entropy.session_id())
    return leases.claim_on(head, owner, seconds=seconds, owner_gone=gone)


def refuse_if_held(
    context: Context, identity: Identity, head: Head, evidence: Evidence, handed_over_by: str | None = None
) -> bool:
    """Whether the present owner is known to be gone. LeaseHeld if it is not and its lease has not expired."""
    lease = head.lease
    if lease is None:
        return False
    if evidence.owner_gone or (handed_over_by is not None and lease.owner.id == handed_over_by):
        return True
    if lease.expired(evidence.now):
        return False
    remaining = lease.remaining_seconds(evidence.now)
    until = at(evidence.now_us + round(remaining * 1e6))
    name, is_mine = identity.name or identity.id, context.host.owner(lease.owner.id) == lease.owner
    running = context.running_effects.of(identity.id)
    ends = f"{until:%H:%M:%S} UTC (in {remaining:.0f} s)"
    if running:
        ends = f"{', '.join(running)} has ended in this process"
    raise leases.held(head, lease, until=ends, name=name, is_mine=is_mine, tools_run=bool(running))


def refresh(context: Context, recorder: Recorder) -> None:
    """Read head and state again after another process wrote."""
    record = context.store.find(recorder.identity.id)
    if record is None:
        raise NotFound(recorder.identity.id)
    found = Found(identity=record.identity, head=record.head, seq=None)
    recorder.head = found.whole_head()
    recorder.fold = load(context.store, found)


def refuse_untrusted(found: Found) -> None:
    """NotResumable for an imported session whose signature is not trusted: a program that opens it would run the tool
    calls, and trust the results, of an unknown author. A fork is allowed: a person decides it, and it runs nothing of
    its parent."""
    if found.identity.labels.get(IMPORTED) == "untrusted":
        name = found.identity.name or found.identity.id
        why = "imported from a bundle whose signature is not trusted here; nothing was run"
        hints = [
            f"read it: relight show {name}",
            f"continue a copy: relight fork {name} --name NEW",
            f"begin another session of this name: rl.session({name!r}, resume=False)",
        ]
        raise NotResumable(name, why, hints=hints)


def refuse_subagent(identity: Identity) -> None:
    """NotResumable for a sub-agent of a coding agent: only that agent continues it."""
    if identity.subagent is not None:
        hints = [f"resume its parent: relight resume {identity.spawned_by}", f"or a copy: relight fork {identity.id}"]
        why = "it is a sub-agent of a coding agent, which alone can continue it"
        raise NotResumable(identity.name or identity.id, why, hints=hints)


def refuse_archived(found: Found) -> None:
    """NotResumable for an archived session."""
    if found.head is not None and found.head.status == "archived":
        name = found.identity.name or found.identity.id
        hints = [f"continue a copy of it: relight fork {name}"]
        raise NotResumable(name, "not restorable (status=archived)", hints=hints)
