"""`relight resume`: continue a session where it stopped. The plan is printed first, then carried out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from relight.cli.app.attempts import Attempts
from relight.cli.app.context import CliContext, confirm, pass_context
from relight.cli.app.start import (
    agent_option,
    agents_of,
    for_one,
    limit_options,
    moment_of,
    print_queued,
    run_in_foreground,
    start_detached,
)
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.render.milestones import Level, Milestones
from relight.cli.render.outcome import print_restored_files, print_waiting_start
from relight.cli.render.plan import lines_of
from relight.cli.render.style import Span
from relight.errors import NotResumable, UsageError
from relight.files.repositories import BACK
from relight.history.documents import plan_document
from relight.journal.bulk_resume import should_resume
from relight.journal.files.repository_state import MOVED
from relight.journal.resume_plan import waived
from relight.text.format import count
from relight.text.safe import one_line
from relight.values.info import ResumePlan
from relight.values.options import AS_IT_IS, ResumeOptions
from relight.values.outcome import StartOutcome
from relight.values.status import Status, headline

if TYPE_CHECKING:
    from relight.library.facade import Relight

_HERE: Final = {
    name: "--return" if name == "returns" else f"--{name.replace('_', '-')}"
    for name in ResumeOptions.__struct_fields__
    if name not in ("prompt", "limits")
}
"""options of a start on this machine, and their flags"""
_DIED: Final[tuple[Status, ...]] = ("terminated", "queued")


@verb(
    "resume",
    ("resume fix-login", "prints the plan, then continues"),
    ('resume fix-login@206 "try argon2 instead"', "from a checkpoint: a fork, with a new prompt"),
    ("resume fix-login --agent codex", "hands the conversation over to another coding agent"),
)
@ref_argument(required=False)
@click.argument("prompt", required=False)
@click.option("--dry-run", is_flag=True, help="Only print the plan.")
@agent_option
@click.option("--restore", is_flag=True, help="Recreate a missing workspace and restore the files that are missing.")
@click.option("--workspace", metavar="DIR", help="From a checkpoint: directory for the fork and its files.")
@click.option("--in-place", is_flag=True, help="From a checkpoint: restore the original directory and work there.")
@click.option("--name", metavar="N", help="From a checkpoint: name of the fork.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--detach", is_flag=True, help="Run in the background; output goes to a log file.")
@click.option("--all", "everything", is_flag=True, help="Resume all that died and can be started, in the background.")
@click.option("--from-last-good", is_flag=True, help="If the newest steps are damaged: use the last intact one.")
@click.option(
    "--accept-repository",
    "accept",
    is_flag=True,
    help="Accept that its repository is missing or on another branch.",
)
@click.option("--without-secrets", is_flag=True, help="Start although variables of its first start are not set.")
@click.option("--now", is_flag=True, help="Do not wait for the end of a usage limit.")
@click.option("--fallback", metavar="A,...", callback=agents_of, help="As in run, in place of those it had.")
@click.option("--return", "returns", is_flag=True, default=None, help="As in run.")
@click.option("--retries", type=click.IntRange(min=0), metavar="N", help="As in run.")
@limit_options
@click.option("--queue", metavar="Q", help="Queue it for a worker instead of starting it here.")
@click.option("--priority", type=int, default=0, metavar="N", help="As in run.")
@click.option("--not-before", metavar="T", help="As in run.")
@click.option(
    "--plan", "plan_hash", metavar="HASH", help="Refuse unless the plan still has this hash, from `can-resume --json`."
)
@click.option("-q", "--quiet", "level", flag_value="quiet", help="Print only deaths and the end.")
@click.option("-v", "--verbose", "level", flag_value="verbose", help="Print every step.")
@json_flag
@pass_context
def resume(
    cli: CliContext,
    /,
    ref: str | None,
    dry_run: bool,
    yes: bool,
    detach: bool,
    everything: bool,
    accept: bool,
    queue: str | None,
    priority: int,
    not_before: str | None,
    plan_hash: str | None,
    level: Level | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Continue session REF at its head, in the foreground. REF@SEQ below the head forks; the fork gets the checkpoint's
    files in a directory of its own."""
    options = ResumeOptions(**given)
    if everything == (ref is not None):
        raise UsageError("name one session, or --all", hints=["relight list --status terminated"])
    here = {flag: given[name] != getattr(AS_IT_IS, name) for name, flag in _HERE.items()}
    here |= {
        "--accept-repository": accept,
        "--json": as_json and not dry_run,
        "--detach": detach,
        "--plan": plan_hash is not None,
    }
    queue_flags = {"--priority": bool(priority), "--not-before": not_before is not None}
    _check_options(here, queue_flags, queue=queue, all_=everything)
    for_one(options.limits, everything=everything)
    with cli.opened() as opened:
        if ref is None:
            return _resume_all(cli, opened, dry_run=dry_run, yes=yes)
        rl = opened if plan_hash is None else _pinned(opened, ref, plan_hash, now=options.now)
        plan = rl.runs.plan(ref, disk=dry_run or level != "quiet", options=options)
        if dry_run:
            return _show_plan(cli, waived(plan, {MOVED}) if accept else plan, as_json=as_json)
        if queue is not None:
            when = moment_of(not_before, cli.now())
            prompt, limits = options.prompt, options.limits
            info = rl.queues.enqueue(ref, queue=queue, prompt=prompt, priority=priority, not_before=when, limits=limits)
            return print_queued(cli, info)
        if not _is_agreed(cli, rl, ref, plan, options, accept=accept, yes=yes, quiet=level == "quiet"):
            return 0
        if detach:
            return start_detached(cli, rl, ref, options, as_json=as_json)
        supervision = rl.runs.supervise(ref, options)
        info, is_printed = supervision.info(), level != "quiet"
        earlier = partial(rl.history.load, info.id)
        supervision.watcher = Milestones(cli, info, level=level or "normal", resumed=is_printed, load=earlier)
        if level != "quiet":
            supervision.on_begun = partial(_print_start, cli)
        return run_in_foreground(cli, supervision, as_json=as_json)


def _print_start(cli: CliContext, outcome: StartOutcome) -> None:
    print_restored_files(cli, outcome)
    print_waiting_start(cli, outcome)


def _is_agreed(
    cli: CliContext,
    rl: Relight,
    ref: str,
    plan: ResumePlan,
    options: ResumeOptions,
    *,
    accept: bool,
    yes: bool,
    quiet: bool,
) -> bool:
    """Print the plan and ask for what needs a confirmation. False: nothing is started."""
    moved = [reason.text for reason in plan.reasons if reason.code == MOVED]
    if moved and (accept or not options.restore):  # with it, the workspace is put back
        plan = _with_repository(cli, rl, ref, plan, moved, options, accept=accept)
        if plan.command is None:
            cli.console.say("run your program again: relight did not start it")
            return False
    if not plan.ok:
        return True  # the start itself refuses, with better evidence than the plan has
    if not quiet and plan.command is not None:
        _print_plan(cli, plan)
    return not (plan.in_doubt and cli.console.can_ask) or confirm(cli, "continue?", yes=yes)


def _with_repository(
    cli: CliContext, rl: Relight, ref: str, plan: ResumePlan, moved: list[str], options: ResumeOptions, *, accept: bool
) -> ResumePlan:
    """Accept a moved repository, after asking for it, and return the plan that follows; else NotResumable."""
    # --yes does not accept it: a script that passes --yes does not know that the files are different ones.
    if not accept:
        for text in moved if cli.console.can_ask else ():
            cli.console.say(one_line(text))
        if not (cli.console.can_ask and confirm(cli, "continue with it?", yes=False)):
            hints = [f"to accept it: relight resume {ref} --accept-repository", BACK]
            raise NotResumable(plan.name or plan.session[:8], moved[0], hints=hints)
    made = rl.files.accept_repository(plan.session)
    for text in moved:
        cli.console.say(f"accepted (@{made.seq}): {one_line(text)}")
    return rl.runs.plan(ref, options=options)


def _check_options(here: Mapping[str, bool], queue_flags: Mapping[str, bool], *, queue: str | None, all_: bool) -> None:
    """UsageError for flags that would have no effect together. `here`: flags of a start on this machine."""
    wrong = [(flag, "applies to one session: name it") for flag in here if all_]
    if queue is None:
        wrong += [(flag, "needs a queue: add --queue default") for flag in queue_flags]
    else:
        wrong += [(flag, "cannot be combined with --queue") for flag in here if flag != "--plan"]
    for flag, why in wrong:
        if here.get(flag) or queue_flags.get(flag):
            raise UsageError(f"{flag} {why}")
    if all_ and queue is not None:
        raise UsageError("--queue applies to one session")


def _pinned(rl: Relight, ref: str, plan_hash: str, *, now: bool) -> Relight:
    """The library pinned to the plan. A session that waits for a time is compared now and not pinned: it may get a
    prompt or an answer while it waits."""
    made = rl.pinned(ref, plan_hash)
    return rl if made.sessions.get(ref).wake_at is not None and not now else made


def _show_plan(cli: CliContext, plan: ResumePlan, *, as_json: bool) -> int:
    if as_json:
        cli.console.document(plan_document(plan))
    else:
        cli.console.write(lines_of(plan, now=cli.now(), style=cli.console.out))
    return 0 if plan.ok else 4


def _print_plan(cli: CliContext, plan: ResumePlan) -> None:
    """Print the plan that is about to be carried out."""
    cli.console.lines([*lines_of(plan, now=cli.now(), style=cli.console.err), []])


def _resume_all(cli: CliContext, rl: Relight, *, dry_run: bool, yes: bool) -> int:
    """Resume sessions that died while running, and those whose waiting time is over."""
    stopped = [info for status in _DIED for info in rl.sessions.list(status=status) if should_resume(info)]
    for info in stopped:
        cli.console.say(Span(info.title, "bold"), f"  @{info.head}  {one_line(headline(info.reason))}", indent=2)
    if not stopped or dry_run:
        cli.console.say(f"{count(len(stopped), 'session')} to resume")
        return 0
    if not confirm(cli, f"resume {count(len(stopped), 'session')} in the background?", yes=yes):
        return 0
    # Each gets a supervisor process of its own, which outlives this command (a oneshot unit after a reboot).
    attempts = Attempts(cli)
    for info in stopped:
        with attempts.of(info.title):
            start_detached(cli, rl, info.id)
    return attempts.exit_code("resumed")
