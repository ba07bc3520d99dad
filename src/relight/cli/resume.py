"""`relight resume`: go on where a session stopped. The plan comes first, and is what is then done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from relight.cli.asking import confirm
from relight.cli.detach import start_detached
from relight.cli.door import Door, pass_door
from relight.cli.look import Span
from relight.cli.milestones import Level, Milestones
from relight.cli.plan import lines_of
from relight.cli.queued import moment_of, tell_queued
from relight.cli.supervising import run_in_front
from relight.cli.verb import json_flag, ref_argument, verb
from relight.engine.documents import plan_document
from relight.errors import UsageError
from relight.model.info import ResumePlan, SessionInfo
from relight.wording import count

if TYPE_CHECKING:
    from relight.engine.library import Relight


@verb(
    "resume",
    ("resume fix-login", "shows the plan, then goes on"),
    ('resume fix-login@206 "try argon2 instead"', "from a checkpoint: a fork, with new words"),
)
@ref_argument(required=False)
@click.argument("prompt", required=False)
@click.option("--dry-run", is_flag=True, help="Only show the plan.")
@click.option("--restore", is_flag=True, help="Make a missing workspace anew; put back the files that it lacks.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--detach", is_flag=True, help="In the background; its output is not kept.")
@click.option("--all", "everything", is_flag=True, help="All that died and can be started again, in the background.")
@click.option("--from-last-good", is_flag=True, help="Where the newest step is damaged: from the one before it.")
@click.option("--without-secrets", is_flag=True, help="Start it although variables it was begun with are not set.")
@click.option("--now", is_flag=True, help="Do not wait for a usage limit to end.")
@click.option("--retries", type=click.IntRange(min=0), metavar="N", help="As in run.")
@click.option("--queue", metavar="Q", help="Put it in line for a worker instead of starting it here.")
@click.option("--priority", type=int, default=0, metavar="N", help="As in run.")
@click.option("--not-before", metavar="T", help="As in run.")
@click.option("-q", "--quiet", "level", flag_value="quiet", help="Tell only deaths and the end.")
@click.option("-v", "--verbose", "level", flag_value="verbose", help="Tell every step.")
@json_flag
@pass_door
def resume(
    door: Door,
    /,
    ref: str | None,
    prompt: str | None,
    dry_run: bool,
    restore: bool,
    yes: bool,
    detach: bool,
    everything: bool,
    from_last_good: bool,
    without_secrets: bool,
    now: bool,
    retries: int | None,
    queue: str | None,
    priority: int,
    not_before: str | None,
    level: Level | None,
    as_json: bool,
) -> int:
    """Continue session REF at its head, in front, like `run`. REF@SEQ below the head forks."""
    if everything == (ref is not None):
        raise UsageError("name one session, or --all", hints=["relight list --status terminated"])
    if as_json and not dry_run:
        raise UsageError("--json shows the plan: add --dry-run", hints=["follow the steps: relight tail REF -f --json"])
    with door.opened() as rl:
        if queue is not None:
            if ref is None:
                raise UsageError("--queue is for one session")
            when = moment_of(not_before, door.now())
            return tell_queued(door, rl.enqueue(ref, queue=queue, prompt=prompt, priority=priority, not_before=when))
        if ref is None:
            return _resume_all(door, rl, dry_run=dry_run, yes=yes)
        plan = rl.can_resume(ref, disk=dry_run or level != "quiet")
        if dry_run:
            return _show_plan(door, rl, plan, as_json=as_json)
        may_go_on = plan.ok or (restore and _only_missing(plan))
        if level != "quiet" and may_go_on and plan.command is not None:
            _tell_plan(door, rl, plan)
        if may_go_on and plan.in_doubt and door.console.can_ask and not confirm(door, "go on?", yes=yes):
            return 0
        supervision = rl.supervise(
            ref,
            prompt=prompt,
            from_last_good=from_last_good,
            retries=retries,
            restore=restore,
            without_secrets=without_secrets,
            now=now,
        )
        if restore and plan.files is not None and level != "quiet":
            door.console.say(Span("✓", "ok"), f" workspace put back as at @{plan.files.captured_at}")
        if detach:
            return start_detached(door, rl, supervision.session, retries=retries, prompt=prompt)
        info = rl.get(supervision.session)
        supervision.watcher = Milestones(door, info, level=level or "normal", resumed=level != "quiet")
        return run_in_front(door, supervision)


def _only_missing(plan: ResumePlan) -> bool:
    """Does nothing but the missing workspace stand against it?"""
    return all(reason.code == "workspace_missing" for reason in plan.reasons if reason.blocks)


def _show_plan(door: Door, rl: Relight, plan: ResumePlan, *, as_json: bool) -> int:
    if as_json:
        door.console.document(plan_document(plan))
    else:
        info = rl.get(plan.session)
        orphans = rl.orphans(plan.session)
        look = door.console.out
        door.console.write(lines_of(plan, now=door.now(), look=look, directory=info.directory, orphans=orphans))
    return 0 if plan.ok else 4


def _tell_plan(door: Door, rl: Relight, plan: ResumePlan) -> None:
    """Only where it will be done: a refusal is an error with its own evidence."""
    info, orphans = rl.get(plan.session), rl.orphans(plan.session)
    look = door.console.err
    door.console.lines([*lines_of(plan, now=door.now(), look=look, directory=info.directory, orphans=orphans), []])


def _resume_all(door: Door, rl: Relight, *, dry_run: bool, yes: bool) -> int:
    """What was running when it died, and what waits for its time; what somebody stopped, or has a verdict, does not
    come back by itself."""
    stopped = [info for info in rl.sessions(status="terminated") if info.command is not None and not _was_stopped(info)]
    stopped += [
        info for info in rl.sessions(status="queued") if info.command is not None and info.attempt and not info.queue
    ]  # who stands in a queue is a worker's
    for info in stopped:
        door.console.say(Span(info.title, "bold"), f"  @{info.head}  {info.reason or ''}", indent=2)
    if not stopped or dry_run:
        door.console.say(f"{count(len(stopped), 'session')} to resume")
        return 0
    if not confirm(door, f"resume {count(len(stopped), 'session')} in the background?", yes=yes):
        return 0
    for info in stopped:
        start_detached(door, rl, info.id, retries=None)
    return 0


def _was_stopped(info: SessionInfo) -> bool:
    """By a person: Ctrl-C, `relight stop`, leaving. A reboot sends SIGTERM, and what it ended comes back."""
    return (info.reason or "").startswith(("stopped by", "stopped (SIGINT)", "left", "interrupted", "adopted"))
