"""What a resume would do, and what prevents it: read from the journal, the files and this machine; changes nothing."""

from __future__ import annotations

import msgspec

from relight.errors import Corrupt
from relight.files import repositories, workspace_check
from relight.files import status as files_statuses
from relight.history import abandoned_effects, listing
from relight.history.loading import Found, load_forked, resolve
from relight.journal.fold import Fold
from relight.journal.resume_plan import as_it_lives, codes_waived, damage_reason, plan_resume, plan_unreadable, waived
from relight.library.loaded import is_live, loaded
from relight.operations.send import has_transcript
from relight.sessions import limits as limiting
from relight.sessions.context import Context
from relight.supervision import hand_over, launch, pause, start_plan, waiting
from relight.supervision import start as starting
from relight.values.call import Call
from relight.values.checkpoint import at
from relight.values.info import HandOver, Reason, ResumePlan, SessionInfo
from relight.values.options import ResumeOptions
from relight.values.status import LIVE


def plan(context: Context, found: Found, *, disk: bool, options: ResumeOptions) -> ResumePlan:
    """What a resume with these options would do, and what prevents it; `disk` compares the files with the disk."""
    if found.head is not None:
        found = hand_over.handed(context, found, options)
    info = listing.info_of(context, found)
    damage, calls, count, fold, good = _read_to_plan(context, found, info, options)
    if found.head is None:
        return plan_unreadable(info, damage, message_count=count)
    held = files_statuses.files_status(context, found, disk=disk) if found.identity.workspace else None
    if held is not None and held.missing and workspace_check.is_unstarted_fork(context, found):
        held = msgspec.structs.replace(held, missing=[])  # its start makes them
    is_coding_agent = has_transcript(context, found.identity)
    planned, told = abandoned_effects.planned(fold, agent=is_coding_agent) if fold is not None else ([], None)
    made = plan_resume(
        info,
        found.head,
        seq=found.seq,
        message_count=count,
        calls=calls,
        planned=planned,
        told=told,
        damage=damage,
        files=held,
    )
    files_plan, directory, refused = None, found.identity.directory, list[Reason]()
    if good is not None:
        made = msgspec.structs.replace(made, checkpoint=f"{info.id}@{good}")
    if damage is None:
        files_plan, directory, refused = start_plan.files_plan(context, found, options, held)
        made = msgspec.structs.replace(made, reasons=made.reasons + refused)
    handed = _hand_over(context, found, fold) if fold is not None else None
    agent = starting.foresee(context, found, has_history=count > 0 or handed is not None, handed=handed)
    reads = fold is not None and (agent is None or (agent.rung == "native" and agent.living is None))
    reply = starting.first_reply(context, found.identity, fold) if reads and fold is not None else None
    limit = waiting.limit_of(context, found) if agent is not None else None
    wake_us = waiting.foresee_wait(context, found)
    made = msgspec.structs.replace(
        made,
        agent=agent,
        first_reply=reply,
        hand_over=handed,
        directory=directory,
        files_plan=files_plan,
        orphans=_orphans(context, found) if disk and not made.forks else [],
        wait_until=at(wake_us) if wake_us is not None else None,
        reasons=[*made.reasons, *(one for one in (limit, pause.reason_of(context)) if one is not None)],
    )
    # Waived twice: once here, so that the checks below are skipped only if something else blocks, and again for
    # what those checks add.
    codes = codes_waived(options)
    made = as_it_lives(made)
    if made.agent is None or made.agent.living is None:
        held_back = limiting.against(context, found, options.limits) if info.status not in LIVE else []
        made = msgspec.structs.replace(made, reasons=made.reasons + held_back)
    made = waived(made, codes)
    # The rest depends on this machine: programs, variables, repositories. A queued session is started by a worker,
    # perhaps elsewhere, which checks them itself.
    if not made.ok or info.queue is not None:
        return made
    variables, against = launch.foresee_start(context, found)
    against += repositories.against(context, found)
    return waived(msgspec.structs.replace(made, environment=variables, reasons=made.reasons + against), codes)


def _read_to_plan(
    context: Context, found: Found, info: SessionInfo, options: ResumeOptions
) -> tuple[Reason | None, list[Call], int, Fold | None, int | None]:
    """What a plan needs of a journal: its damage, calls, number of messages and fold; and, if the start would
    first rewind to it, the last good checkpoint: these are then of there."""
    try:
        read, fold = loaded(context, found)
        if found.seq is None or found.seq == found.whole_head().head:
            return None, read.calls, len(read.messages), fold, None
        fold = load_forked(context.store, found, found.seq)
        return None, fold.calls(doubtful=True), len(read.messages), fold, None
    except Corrupt as error:
        damage = damage_reason(info, str(error), error.offered, options)
        if damage.blocks or error.offered is None:
            return damage, [], 0, None, None
        good, fold = loaded(context, resolve(context.store, error.offered))
        return damage, fold.calls(doubtful=True), len(good.messages), fold, good.seq


def _hand_over(context: Context, found: Found, fold: Fold) -> HandOver | None:
    adapter = context.agent(found.identity)
    source = hand_over.source_of(context, found, fold, adapter)
    if source is None:
        return None
    return hand_over.foresee(source, adapter, task=found.identity.task, at_us=context.clock.now_us())


def _orphans(context: Context, found: Found) -> list[int]:
    """Processes that a dead attempt left running; the next start ends them."""
    return [] if is_live(context, found) else context.runtime().orphans(found.identity.id)
