"""The one status function of all entry points: from stored values and evidence to what is shown.

Where they disagree, evidence wins and is shown: a live process with an expired lease is `working`, and an evidence line
names the lease; a dead owner makes a `working` session `terminated`, whatever was stored last. Clock and process checks
are passed in.
"""

from __future__ import annotations

from typing import Final

import msgspec

from relight.journal.effects.answers import PROGRAMS, answered_by
from relight.journal.effects.approvals import as_asked, asks_approval, cure_of
from relight.values.checkpoint import at
from relight.values.info import Attention, AttentionKind, Doing, QueuedAs, SessionInfo
from relight.values.lease import Instant
from relight.values.session import Head, Identity
from relight.values.status import LIVE, Status, headline

QUIET_SECONDS: Final = 300.0
QUIET_FACTOR: Final = 4.0
_MAX_GAPS: Final = 200
LIMITS: Final = frozenset({"usage_limit", "billing", "rate_limit"})
"""kinds of failure after which a provider's limit is waited for"""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What was observed about a session's owner, at one moment."""

    now: Instant
    now_us: int
    owner_gone: bool | None = None
    """True dead, False alive, None not observable from this machine"""
    gaps_us: tuple[int, ...] = ()
    """between the latest steps, to estimate how long a pause is usual"""
    cost_tree: float | None = None
    """None: it was not added up, or no cost is known"""


def derived_status(head: Head, evidence: Evidence) -> tuple[Status, str | None]:
    """The status to show, and its reason."""
    if head.status not in LIVE:
        return head.status, head.reason
    lease = head.lease
    if lease is None:
        return "terminated", "no owner"
    if evidence.owner_gone:
        return "terminated", f"its process died ({lease.owner.label})"
    # An expired lease alone proves nothing about a process that is seen alive here: it may be suspended or starved.
    if lease.expired(evidence.now) and evidence.owner_gone is None:
        return "terminated", f"its owner stopped renewing the lease ({lease.owner.label})"
    return head.status, head.reason


def evidence_lines(head: Head, evidence: Evidence) -> list[str]:
    """The observations the status is based on."""
    lease = head.lease
    if lease is None:
        return []
    seen = {True: "gone", False: "alive", None: "not visible from here"}[evidence.owner_gone]
    lines = [f"{lease.owner.label} {seen}"]
    if lease.expired(evidence.now):
        lines.append(f"lease epoch {head.epoch}, ended")
    else:
        lines.append(f"lease epoch {head.epoch}, {lease.remaining_seconds(evidence.now):.0f} s left")
    return lines


def describe(identity: Identity, head: Head, evidence: Evidence) -> SessionInfo:
    """A session as every entry point shows it."""
    status, reason = derived_status(head, evidence)
    live = status in LIVE
    sleeps = live and head.wake_us is not None and head.wake_us > evidence.now_us
    if live and head.wake_us is not None and not sleeps:
        reason = None  # it slept, and continues
    in_doubt = 0 if live else len(head.open)
    info = SessionInfo(
        id=identity.id,
        name=identity.name,
        key=identity.key,
        agent=identity.agent,
        provider=identity.provider,
        model=identity.model,
        task=identity.task,
        labels=identity.labels,
        metadata=identity.metadata,
        status=status,
        reason=reason,
        failure=head.failure,
        resumed_from=head.resumed_from,
        head=head.head,
        seq=head.seq,
        attempt=head.attempt,
        parent=str(identity.parent) if identity.parent is not None else None,
        workspace=identity.workspace,
        runtime=identity.runtime,
        handle=head.handle,
        created_at=at(identity.created_us),
        updated_at=at(head.updated_us or identity.created_us),
        usage=head.usage,
        attention=None,
        doing=_doing(head) if live else None,
        last_step_at=at(head.updated_us) if head.seq else None,
        saved_at=at(head.updated_us) if head.seq else None,
        wake_at=at(head.wake_us) if head.wake_us is not None and (sleeps or head.status not in LIVE) else None,
        cost=head.usage.cost,
        cost_rate=_cost_rate(identity, head, evidence) if live else None,
        cost_tree=evidence.cost_tree,
        evidence=evidence_lines(head, evidence),
        message_count=head.message_count,
        turns=head.turns,
        in_doubt=in_doubt,
        question=head.question,
        asking=head.asking,
        said=head.said,
        directory=identity.directory,
        command=identity.command,
        size_bytes=head.size_bytes,
        queue=head.queue_position.queue if head.queue_position is not None else None,
        priority=head.queue_position.priority if head.queue_position is not None else 0,
        wants=list(head.queue_position.wants) if head.queue_position is not None else [],
        worked_seconds=round(head.worked_us / 1e6, 3),
        limits={
            "budget": identity.policy.budget,
            "budget_tokens": identity.policy.budget_tokens,
            "time_limit": identity.policy.seconds,
        },
        spawned_by=identity.spawned_by,
        subagent=identity.subagent,
        env=identity.env,
        secrets=identity.secrets,
        queued_as=_queued_as(head, evidence.now_us) if status == "queued" else None,
    )
    return msgspec.structs.replace(info, attention=_attention(info, head, evidence))


def _queued_as(head: Head, now_us: int) -> QueuedAs:
    """What a queued session waits for; first a time in the future, since until then nothing starts it."""
    reason = head.reason or ""
    if head.wake_us is not None and head.wake_us > now_us:
        limited = reason.startswith("usage limit") or (head.failure is not None and head.failure.kind in LIMITS)
        return "limit" if limited else "retry" if head.failure is not None or head.attempt else "scheduled"
    if head.queue_position is not None and head.queue_position.queue:
        return "in_line"
    words: dict[str, QueuedAs] = {"forked": "forked", "rewound": "rewound", "new prompt": "prompted"}
    words |= {"answered": "answered", "approved": "answered", "denied": "answered"}
    return next((word for begins, word in words.items() if reason.startswith(begins)), "ready")


def quiet_after_seconds(gaps_us: tuple[int, ...]) -> float:
    """How long a pause without steps is unusual for this session, from its own gaps; at least five minutes."""
    if not gaps_us:
        return QUIET_SECONDS
    ordered = sorted(gaps_us[-_MAX_GAPS:])
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))] / 1e6
    return max(QUIET_SECONDS, QUIET_FACTOR * p95)


def _attention(info: SessionInfo, head: Head, evidence: Evidence) -> Attention | None:
    found = _needs_attention(info, head, evidence)
    if found is None:
        return None
    kind, text, cure = found
    return Attention(kind=kind, since=at(head.updated_us), text=text, cure=cure)


def _needs_attention(info: SessionInfo, head: Head, evidence: Evidence) -> tuple[AttentionKind, str, str] | None:
    name = info.title
    if info.subagent is not None:
        return None  # reported with its parent
    if info.status == "waiting" and head.open and head.question is None:
        from shlex import join

        cure = join(["relight", "settle", name, head.open[0].id])  # shows the call, and both ways to settle it
        return "in_doubt", f"{head.open[0].name}: did it take effect?", cure
    if info.status == "waiting":
        has_command = info.command is not None
        approval, calls = asks_approval(head.question, head.asking), len(head.open)
        how = answered_by(info.agent, head.question, approval=approval, has_command=has_command, open_calls=calls)
        if how == "program":
            cure = PROGRAMS.get(info.agent or "", "answer in your program")
        else:
            cure = cure_of(head.question, head.asking, name)
        return "waiting", f"asks: {as_asked(head.question) or info.reason or ''}", cure
    resume = f"relight resume {name}" if info.command else "run your program again"
    if info.status == "failed":
        return "failed", headline(info.reason) or "failed", resume
    if info.status == "terminated":
        text = headline(info.reason) or "stopped"
        return "terminated", f"{text}; {info.in_doubt} in doubt" if info.in_doubt else text, resume
    if info.status == "halted":
        from relight.journal.limits import more_for

        more = more_for(info.failure, name, has_command=info.command is not None)
        return "halted", headline(info.reason) or "halted", more or f"relight show {name}"
    silent = (evidence.now_us - max(head.updated_us, head.wake_us or 0)) / 1e6  # a pause is not quiet
    if info.status == "working" and silent > quiet_after_seconds(evidence.gaps_us):
        return "quiet", f"no step for {silent / 60:.0f} min", f"relight tail {name} -f"
    return None


def _doing(head: Head) -> Doing | None:
    if not head.open:
        return None
    latest = head.open[-1]
    return Doing(tool=latest.name, since=at(latest.started_us))


def _cost_rate(identity: Identity, head: Head, evidence: Evidence) -> float | None:
    hours = (evidence.now_us - identity.created_us) / 3.6e9
    return head.usage.cost / hours if head.usage.cost is not None and hours > 0.01 else None
