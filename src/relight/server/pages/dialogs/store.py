"""Dialogs about the store as a whole: sweep, retention, pause."""

from __future__ import annotations

from datetime import datetime

from relight.journal.retention import days_text
from relight.library.facade import Relight
from relight.server.pages.dialogs.values import Dialog, Field
from relight.server.pages.site import pause_text
from relight.text import format as words


def sweep_dialog(rl: Relight) -> Dialog:
    """Confirmation of a sweep, with a preview of what it removes."""
    going = rl.admin.sweep(dry_run=True)
    names = going.names[:50]
    more = f" and {len(going) - len(names)} more" if len(going) > len(names) else ""
    freed = words.size(going.size_bytes + going.file_bytes)
    return Dialog(
        title="Sweep",
        confirm="Sweep",
        happens=f"Remove {words.count(len(going), 'session')} past retention; {freed} freed.",
        kept="Unfinished sessions, and those that a remaining fork reads from.",
        back="This cannot be undone.",
        command="relight sweep",
        path="/api/sweep",
        lines=[("removes", ", ".join(names) + more, "")] if names else [],
        danger=True,
        why_not="" if len(going) else "nothing is due",
        done="swept",
    )


def retention_dialog(rl: Relight) -> Dialog:
    """Setting the retention policy, with the number of sessions that are past it now."""
    policy = rl.admin.retention()
    would = rl.admin.kept_longer_than(policy.finished_days if policy.finished_days is not None else 7.0)
    number = f"{'at least ' if would.more else ''}{words.count(would.sessions, 'session')}"
    now = days_text(policy.finished_days) if policy.is_set else "7d"
    return Dialog(
        title="Retention",
        confirm="Set",
        happens="Finished sessions are removed this long after their end, once a day, by servers, workers and"
        " supervisors of this store. Setting the policy removes nothing.",
        kept="Unfinished sessions, and those that a remaining fork reads from. Removals are recorded in the audit log.",
        back="Set it to off to remove nothing more. Removed sessions cannot be recovered.",
        command=f"relight sweep --set {now}",
        path="/api/retention",
        lines=[
            ("now", words.policy_text(policy), ""),
            ("over", f"{number} finished over {days_text(would.days)} ago, {words.size(would.size_bytes)}", ""),
        ],
        fields=[
            Field(kind="line", name="retention", label="Keep for", required=True, value=now, hint="7d, 36h, 2w, off")
        ],
        danger=True,
        why_not=f"{policy.set_by} is set for this server, and takes precedence"
        if policy.set_by == "RELIGHT_RETENTION"
        else "",
        done="the policy is set",
    )


def pause_dialog(rl: Relight, now: datetime) -> Dialog:
    """Pausing everything, or ending the pause."""
    paused = pause_text(rl.admin.paused(), now)
    if paused:
        return Dialog(
            title="End the pause",
            confirm="End the pause",
            happens="Workers claim sessions from their queues again, and sessions can be started.",
            kept="Sessions that ran without a worker stay as they are until they are resumed.",
            back="Pause everything again.",
            command="relight unpause",
            path="/api/unpause",
            lines=[("paused", paused, "")],
            done="the pause is over",
        )
    return Dialog(
        title="Pause everything",
        confirm="Pause everything",
        happens="Every agent and program that runs under relight is ended within two seconds, on every machine that"
        " uses this store. Nothing is started until the pause is ended, not after a restart either.",
        kept="Every step. Programs that relight did not start keep running.",
        back="End the pause: workers continue their sessions; resume the others.",
        command="relight pause",
        path="/api/pause",
        fields=[Field(kind="line", name="why", label="Why", hint="shown wherever a start is refused")],
        danger=True,
        done="everything is paused",
    )
