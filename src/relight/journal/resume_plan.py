"""The resume plan: whether a session may continue, from where, and what its model will be told."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from relight.journal.effects.approvals import as_asked, cure_of
from relight.journal.files.repository_state import MOVED
from relight.values.call import Call, PlannedCall
from relight.values.checkpoint import at
from relight.values.info import FilesState, Reason, ResumePlan, SessionInfo
from relight.values.options import ResumeOptions
from relight.values.session import Head
from relight.values.status import LIVE

HASH_CHARS: Final = 16
"""of a plan hash, and of the hash of name and labels that may follow it"""


def plan_resume(
    info: SessionInfo,
    head: Head,
    *,
    seq: int | None,
    message_count: int,
    calls: Sequence[Call],
    planned: Sequence[PlannedCall] = (),
    told: str | None = None,
    damage: Reason | None = None,
    files: FilesState | None = None,
) -> ResumePlan:
    """Decide a resume of the head, or of the checkpoint `seq`."""
    forks = seq is not None and seq != head.head
    reasons = [damage] if damage is not None else []
    if not forks:
        reasons += _against(info)
    if files is not None and files.missing and not forks:  # a fork has files of its own
        reasons.append(_missing(info, files))
    doubtful = [call for call in calls if call.in_doubt]
    return ResumePlan(
        ok=not any(reason.blocks for reason in reasons),
        session=info.id,
        name=info.name,
        checkpoint=f"{info.id}@{seq if seq is not None else head.head}",
        status=info.status,
        stopped_at=at(head.updated_us) if info.status not in LIVE and head.seq else None,
        why_stopped=info.reason,
        forks=forks,
        message_count=message_count,
        in_doubt=doubtful,
        told=told,
        command=info.command,
        reasons=reasons,
        plan=plan_hash(head, seq),
        files=files,
        calls=list(planned),
    )


def as_it_lives(plan: ResumePlan) -> ResumePlan:
    """The plan without what does not apply to an agent that is alive: it is reattached as it is, gets no message,
    nothing of it is ended, and it waits for no limit."""
    if plan.agent is None or plan.agent.living is None:
        return plan
    reasons = [reason for reason in plan.reasons if reason.code != "usage_limit"]
    return msgspec.structs.replace(plan, told=None, calls=[], orphans=[], wait_until=None, reasons=reasons)


def waived(plan: ResumePlan, codes: Collection[str]) -> ResumePlan:
    """The plan with these reasons reported but not blocking: the caller has accepted them."""
    reasons = [
        msgspec.structs.replace(one, blocks=False, cure=None) if one.code in codes else one for one in plan.reasons
    ]
    return msgspec.structs.replace(plan, reasons=reasons, ok=not any(one.blocks for one in reasons))


def codes_waived(options: ResumeOptions) -> set[str]:
    """Codes of reasons that do not block a start with these options."""
    codes = {"workspace_missing", MOVED} if options.restore else set()
    codes |= {"completed"} if options.prompt is not None else set()
    return codes | ({"secrets_missing"} if options.without_secrets else set())


def plan_hash(head: Head, seq: int | None) -> str:
    """Hash that changes whenever the session moved in a way that could change the plan."""
    text = f"{head.session}:{head.seq}:{head.epoch}:{head.head}:{seq}"
    return sha256(text.encode()).hexdigest()[:HASH_CHARS]


def naming_hash(name: str | None, labels: Mapping[str, str]) -> str:
    """Hash that changes with the name or a label, which no step records. Behind a plan hash it pins them too."""
    return sha256(msgspec.json.encode([name, sorted(labels.items())])).hexdigest()[:HASH_CHARS]


def _missing(info: SessionInfo, files: FilesState) -> Reason:
    verb = f"relight resume {info.title} --restore" if info.command is not None else f"relight restore {info.title}"
    cure = verb if files.captured_at is not None else None
    return Reason(code="workspace_missing", text=f"workspace missing: {files.missing[0]}", cure=cure)


def _against(info: SessionInfo) -> list[Reason]:
    name = info.title
    if info.status == "archived":
        return [
            Reason(code="archived", text="not restorable (status=archived)", cure=f"relight fork {name}@{info.head}")
        ]
    if info.status in LIVE:
        owner = info.evidence[0] if info.evidence else "another process"
        return [Reason(code="lease_held", text=f"it is running: {owner}", cure=f"relight tail {name} -f")]
    if info.subagent is not None:
        text = "it is a sub-agent: only the agent that began it can continue it"
        return [Reason(code="subagent", text=text, cure=f"relight resume {info.spawned_by}")]
    reasons = []
    if info.command is None:
        text = "relight does not know how to start it: run your program again"
        reasons.append(Reason(code="no_command", text=text, blocks=False))
    if info.status == "completed":
        text = "it is completed; it continues with a new prompt"
        reasons.append(Reason(code="completed", text=text, cure=f"relight resume {name} PROMPT", blocks=False))
    if info.status == "waiting" and info.question:
        cure = cure_of(info.question, info.asking, name)
        reasons.append(Reason(code="waiting", text=f"it asks: {as_asked(info.question)}", cure=cure, blocks=False))
    return reasons


def damage_reason(info: SessionInfo, text: str, offered: str | None, options: ResumeOptions) -> Reason:
    """Damage of the newest steps. It blocks, unless the start has to continue from the checkpoint that is
    `offered`, and there is one."""
    if offered is None:
        return Reason(code="corrupt", text=text)
    if options.from_last_good:
        seq = offered.rpartition("@")[2]
        return Reason(code="corrupt", text=f"{text}; it continues from @{seq}, the last intact step", blocks=False)
    return Reason(code="corrupt", text=text, cure=f"relight resume {info.title} --from-last-good")


def plan_unreadable(info: SessionInfo, damage: Reason | None, *, message_count: int) -> ResumePlan:
    """The plan for a session whose head is damaged: without a repair, nothing would happen."""
    return ResumePlan(
        ok=damage is not None and not damage.blocks,
        session=info.id,
        name=info.name,
        checkpoint=info.id,
        status=info.status,
        stopped_at=None,
        why_stopped=info.reason,
        forks=False,
        message_count=message_count,
        in_doubt=[],
        told=None,
        command=info.command,
        reasons=[damage] if damage is not None else [],
        plan="",
    )
