"""Values as people read them, the same on the command line and on pages: statuses, ages, durations, money, sizes,
paths, and the parts of a resume plan.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from relight.journal.effects.answers import no_words_for
from relight.journal.retention import days_text
from relight.text.safe import one_line, shortened
from relight.values.call import PlannedCall
from relight.values.info import AttentionKind, FilesPlan, ResumePlan, SessionInfo
from relight.values.policy import Policy
from relight.values.status import LIVE, Status, first_line, headline

_MAX_CALLS: Final = 8
Role = Literal["ok", "bad", "warn", "waiting", "ref", "dim"]
"""the meaning of a colour"""

GLYPHS: Final[dict[Status, tuple[str, Role]]] = {
    "queued": ("…", "dim"),
    "spawning": ("~", "dim"),
    "working": ("●", "ref"),
    "waiting": ("?", "waiting"),
    "completed": ("✓", "ok"),
    "failed": ("✗", "bad"),
    "halted": ("=", "warn"),
    "terminated": ("†", "warn"),
    "archived": ("-", "dim"),
}
"""status to glyph and role"""
ATTENTION: Final[dict[AttentionKind, tuple[str, Role]]] = {
    "waiting": ("?", "waiting"),
    "in_doubt": ("!", "warn"),
    "stuck": ("!", "warn"),
    "corrupt": ("✗", "bad"),
    "failed": ("✗", "bad"),
    "terminated": ("†", "warn"),
    "quiet": ("!", "warn"),
    "halted": ("=", "warn"),
}
DURABILITY: Final = {
    "power-loss": "an acknowledged step survives a crash and a power cut",
    "process-crash": "an acknowledged step survives a crash of the program, not of the machine",
    "none": "nothing survives the end of the program",
}
_TITLE: Final = 60


def seconds_between(earlier: datetime | None, later: datetime) -> float | None:
    """Seconds from `earlier` to `later`, at least 0 (the clock may have been set back); None for None."""
    return None if earlier is None else max(0.0, (later - earlier).total_seconds())


def age(seconds: float | None) -> str:
    """Short form for a column: 0.3s, 38s, 4m, 3h, 2d."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds:.1f}s"
    for bound, unit, size in ((100, "s", 1), (3600, "m", 60), (172_800, "h", 3600)):
        if seconds < bound:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds / 86_400:.0f}d"


def duration(seconds: float) -> str:
    """Long form for a sentence: 9 s, 4 min, 2 h 51 min, 3 days."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        hours, minutes = divmod(round(seconds / 60), 60)
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{seconds / 86_400:.0f} days"


def money(cost: float | None) -> str:
    """US dollars; `-` if the cost is unknown, which is not the same as $0.00; below a cent with two digits of it."""
    if cost is not None and 0 < cost < 0.01:
        return f"${cost:.6f}".rstrip("0") if cost < 0.0001 else f"${cost:.4f}".rstrip("0")
    return "-" if cost is None else f"${cost:,.2f}"


def size(size_bytes: int) -> str:
    """A number of bytes: 1.2 GB, 38 MB, 4 kB, 812 B."""
    amount = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if amount >= 10 or unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError("unreachable: the last unit holds everything")


def count(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: `1 step`, `2 steps`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def tokens(number: int) -> str:
    """A number of tokens: 1.3 M, 184 k, 812."""
    if number >= 1_000_000:
        return f"{number / 1e6:.1f} M"
    return f"{number / 1000:.0f} k" if number >= 1000 else str(number)


def display_path(directory: str | None) -> str:
    """A path with the home directory shortened to ~."""
    if not directory:
        return ""
    home = str(Path.home()) if Path.home() != Path("/") else ""
    return "~" + directory[len(home) :] if home and (directory + "/").startswith(home + "/") else directory


def short_path(directory: str | None) -> str:
    """The last two parts of a path, which distinguish most directories."""
    whole = display_path(directory)
    parts = [part for part in whole.split("/") if part]
    return whole if len(parts) <= 2 else "…/" + "/".join(parts[-2:])


def working_directory(info: SessionInfo) -> str | None:
    """The directory a session works in; None if unknown."""
    return info.directory or next(iter(info.workspace.values()), None)


def title(info: SessionInfo) -> str:
    """The session's name, else the beginning of its task, else of its id."""
    if info.name:
        return info.name
    return shortened(one_line(info.task), _TITLE) if info.task else info.id[:8]


def ref(info: SessionInfo) -> str:
    """The reference to type: name, else a prefix of the id."""
    return info.name or info.id[:12]


def short_id(session: str, others: list[str] | None = None) -> str:
    """The shortest prefix that is unique among `others`, at least 6 characters."""
    for length in range(6, len(session)):
        if not any(one != session and one.startswith(session[:length]) for one in others or ()):
            return session[:length]
    return session


def clock(moment: datetime) -> str:
    """Local time of day, with seconds."""
    return f"{moment.astimezone():%H:%M:%S}"


def moment(at: datetime, now: datetime) -> str:
    """Local time, with the date if it is another day than `now`."""
    local = at.astimezone()
    return f"{local:%H:%M}" if local.date() == now.astimezone().date() else f"{local:%Y-%m-%d %H:%M}"


def queued_text(info: SessionInfo, now: datetime, unserved: Collection[str] = ()) -> str:
    """What a queued session waits for; `unserved`: queues that no worker serves."""
    until = moment(info.wake_at, now) if info.wake_at is not None else ""
    reason = one_line(headline(info.reason) or "")
    by_hand = "" if info.command else "; run your program again"
    texts = {
        "in_line": f"in line in {info.queue}" + (", which no worker serves" if info.queue in unserved else ""),
        "limit": f"waits for a limit until {until}" + (f" ({reason})" if reason not in ("", "limit") else ""),
        "retry": f"is tried again at {until}" + (f": {reason}" if reason else ""),
        "scheduled": f"scheduled for {until}",
        "answered": f"{reason or 'answered'}, not started since{by_hand}",
        "forked": f"{reason}, not started yet{by_hand}",
        "rewound": f"{reason}, not started since{by_hand}",
        "prompted": f"has a new prompt, not started since{by_hand}",
        "ready": f"{reason or 'not started yet'}{by_hand}",
    }
    return texts[info.queued_as or "ready"]


def now_text(info: SessionInfo, now: datetime, unserved: Collection[str] = ()) -> str:
    """What a session is doing, asks, waits for, failed with, or replied last."""
    said = f'"{one_line(info.said)}"' if info.said else one_line(info.task or "")
    if info.status == "waiting":
        return one_line(info.attention.text if info.attention is not None else info.reason or "")
    if info.wake_at is not None and (info.reason or "").startswith("sleeping until"):
        return f"sleeping until {moment(info.wake_at, now)}"
    if info.status in LIVE:
        since = seconds_between(info.doing.since, now) if info.doing is not None else None
        doing = f"{info.doing.tool} ({duration(since or 0)})" if info.doing is not None else said
        quiet = info.attention is not None and info.attention.kind == "quiet"
        return one_line(f"quiet; {doing}" if quiet else doing)
    if info.status == "completed":
        return said
    doubt = f"{info.in_doubt} in doubt; " if info.in_doubt else ""
    if info.status == "queued":
        return doubt + queued_text(info, now, unserved)
    # Not cut to a width here: the caller knows its own, and a pipe has none.
    return doubt + one_line(first_line(info.reason) or said)


def conversation(plan: ResumePlan) -> str:
    """How a resume restores the conversation."""
    text, agent = count(plan.message_count, "message"), plan.agent
    if agent is not None and agent.living is not None:
        text += f"; {agent.agent} is still running (pid {agent.living}) and is attached to"
    elif agent is not None and agent.rung == "native":
        text += f", {agent.agent}'s own resume (native)" + (", written from the journal" if agent.written else "")
    elif agent is not None:
        text += f", {agent.rung}: " + ("a brief from the journal" if agent.rung == "bootstrap" else "it starts over")
    return text + ("; below the head: a fork is created and this session is not changed" if plan.forks else "")


def first_reply(plan: ResumePlan, now: datetime) -> str:
    """Estimated size and cost of the first reply after a resume; empty if unknown."""
    reply = plan.first_reply
    if reply is None:
        return ""
    parts = [f"about {tokens(reply.tokens)} tokens" + ("" if reply.counted else ", by length")]
    if reply.cold is not None:
        idle = duration(seconds_between(reply.replied_at, now) or 0.0)
        parts.append(f"cache {'cold' if reply.cold else 'warm'} (idle {idle})")
    if reply.cost is not None:
        parts.append(f"about {money(reply.cost)}")
    return ", ".join(parts)


def environment(plan: ResumePlan) -> str:
    """Variables of the first start that are set here; missing ones are listed as reasons."""
    found = [name for name, is_set in plan.environment.items() if is_set]
    return f"{', '.join(found)} {'is' if len(found) == 1 else 'are'} set" if found else ""


def policy_text(policy: Policy) -> str:
    """A store's retention policy as one sentence."""
    if not policy.is_set:
        return "no policy: nothing is removed automatically"
    if policy.finished_days is None:
        return f"off (set by {policy.set_by}): nothing is removed automatically"
    days = days_text(policy.finished_days)
    by = f"once a day (set by {policy.set_by})"
    return f"finished sessions are removed {days} after their end, {by}; unfinished ones never"


def send_refusal(info: SessionInfo) -> str:
    """Why `send` would be refused for a session; empty if it would not."""
    found = no_words_for(
        info.agent, info.status, info.question, has_command=info.command is not None, open_calls=info.in_doubt
    )
    return f"{found[0]}: {found[1]}" if found is not None else ""


def planned_calls(calls: Sequence[PlannedCall]) -> list[str]:
    """Open calls that are not simply run, and what is done about each, one per line."""
    special = [one for one in calls if one.action not in ("run", "tell_unknown") or one.text.startswith("runs again")]
    more = [f"and {len(special) - _MAX_CALLS} more"] if len(special) > _MAX_CALLS else []
    return [f"{one_line(one.name)} ({one_line(one.id)}) {one_line(one.text)}" for one in special[:_MAX_CALLS]] + more


def started_with(plan: ResumePlan) -> str:
    """Command and directory of a plan; empty if relight does not know the command."""
    if plan.command is None:
        return ""
    from shlex import join

    return join(plan.command) + (f"  in {display_path(plan.directory)}" if plan.directory else "")


def ended_first(plan: ResumePlan) -> str:
    """Orphans that a start ends first; empty if there are none."""
    if not plan.orphans:
        return ""
    pids = ", ".join(map(str, plan.orphans))
    return f"{count(len(plan.orphans), 'process', 'processes')} of a dead attempt will be ended (pid {pids})"


def fork_files(planned: FilesPlan, workspace: Mapping[str, str], *, now: bool) -> str:
    """Where a fork of this workspace gets its files; `now`: the fork itself writes them."""
    there = ", ".join(map(display_path, (planned.places or workspace).values()))
    where = f"in {there}" if planned.places else f"in a new directory beside {there}"
    if planned.at is None:
        return f"{where}: nothing was captured up to here, so its start would be refused"
    return f"as of @{planned.at}, {where}, {'filled now' if now else 'created by its first start'}"


def files_put(plan: ResumePlan) -> str:
    """What a start does to files, and where; empty if it does not change any."""
    planned, state = plan.files_plan, plan.files
    if planned is None or state is None:
        return ""
    there = ", ".join(map(display_path, (planned.places or state.workspace).values()))
    if planned.action == "own_directory" and planned.at is not None:
        where = f"in {there}, which is created for it" if planned.places else f"in a new directory beside {there}"
        return f"as of @{planned.at}, {where}; what is on disk now is not changed"
    if planned.action == "in_place":
        return f"restored as of @{planned.at} in {there}; a safety snapshot holds what is there now"
    if planned.action == "made_anew":
        return f"as of @{planned.at}; {there} is created again and filled"
    if planned.action == "put_back":
        return f"{count(planned.files or 0, 'file')} restored as of @{planned.at}; other differences stay"
    if planned.action == "stay" and plan.forks:
        return f"stay as they are in {there}: nothing was captured up to here"
    return ""
