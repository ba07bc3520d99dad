"""Dialogs about several sessions at once: those that were chosen, all that match a filter, all that stopped alike.

Each session has a box and its own plan hash; the script sends them in groups, and shows the outcome of each.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import msgspec

from relight.errors import NotFound
from relight.server.api.bulk import MAX, finished, stopped_alike
from relight.server.pages.dialogs.values import Dialog, Field, Option
from relight.text import format as words
from relight.text.safe import one_line, shortened
from relight.values.info import SessionInfo
from relight.values.status import LIVE, allowed, first_line

if TYPE_CHECKING:
    from relight.library.facade import Relight

SeveralVerb = Literal["stop", "resume", "label", "archive", "remove"]
MAX_CHOSEN: Final = 1000
"""sessions in one dialog"""


class _Texts(msgspec.Struct, frozen=True, kw_only=True):
    """What a dialog says about a verb."""

    happens: str
    kept: str
    back: str
    done: str
    flags: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    pinned: bool = True
    """one that has moved since is left alone"""


_TEXTS: Final[dict[SeveralVerb, _Texts]] = {
    "stop": _Texts(
        happens="Ask the processes of {} to end (SIGTERM), and kill those that do not, one after the other.",
        kept="Every saved step.",
        back="Resume any of them at any time.",
        done="stopped",
        pinned=False,
    ),
    "resume": _Texts(
        happens="Start {} again, one after the other, each at its head.",
        kept="No finished step runs again; a session that cannot start is not changed, and the reason is shown.",
        back="Stop any of them at any time.",
        done="resumed",
        flags=("--detach",),
    ),
    "label": _Texts(
        happens="Give {} a label, or take one away. A value that a session has for it is replaced.",
        kept="Every step and every other label. A session that runs is not disturbed.",
        back="Take the label away again; a value that it replaced is not kept.",
        done="labelled",
        flags=("--add", "KEY=VALUE"),
        fields=(
            Field(kind="line", name="key", label="Label", hint="such as team", required=True),
            Field(kind="line", name="value", label="Value", required=True, unless="unset"),
            Field(kind="box", name="unset", label="take this label away instead"),
        ),
        pinned=False,
    ),
    "archive": _Texts(
        happens="Archive {}; they cannot be resumed afterwards.",
        kept="Each can be read, forked and exported, until the retention policy removes it.",
        back="Fork the head of one to continue it.",
        done="archived",
    ),
    "remove": _Texts(
        happens="Delete {} with all their data. One that a fork or a child outside this list needs is left alone.",
        kept="Nothing of them. Export what you may want again.",
        back="This cannot be undone.",
        done="removed",
    ),
}


def why_not(verb: SeveralVerb, info: SessionInfo) -> str:
    """Why an action is not possible for a session now; empty if it is."""
    live, archived = info.status in LIVE, info.status == "archived"
    if verb == "stop":
        return "" if live else "not running"
    if verb == "label":
        return ""
    if live:
        return "running"
    if verb == "resume":
        return "archived" if archived else "" if info.command else "relight does not know how to start it"
    if verb == "archive":
        return "" if allowed(info.status, "archived") else info.status
    return ""


def several_dialog(
    rl: Relight, verb: str, infos: Sequence[SessionInfo], now: datetime, *, more: bool = False
) -> Dialog:
    """The dialog of one action for these sessions. `more`: there are more that match than one dialog holds."""
    if verb not in get_args(SeveralVerb):
        raise NotFound(verb[:50], what="action")
    action: SeveralVerb = verb  # type: ignore[assignment]
    texts = _TEXTS[action]
    possible = [info for info in infos if not why_not(action, info)]
    left: dict[str, int] = {}
    for info in infos:
        if why := why_not(action, info):
            left[why] = left.get(why, 0) + 1
    lines = [("left alone", ", ".join(f"{number} {why}" for why, number in left.items()), "")] if left else []
    doubt = sum(1 for info in possible if info.in_doubt) if verb == "resume" else 0
    if doubt:
        text = f"{words.count(doubt, 'session')} with calls in doubt: the model is told that their outcome is unknown"
        lines.append(("calls", text, "warn"))
    number = words.count(len(possible), "session")
    rest = f" More than {MAX_CHOSEN:,} match: repeat it for the others." if more else ""
    return Dialog(
        title=f"{verb.capitalize()} {number if possible else 'sessions'}",
        confirm=f"{verb.capitalize()} them",
        happens=texts.happens.format(number if possible else "these sessions") + rest,
        kept=texts.kept,
        back=texts.back,
        command=_for_each(possible, {"remove": "rm"}.get(verb, verb), *texts.flags) if possible else "",
        path=f"/api/{verb}",
        body=_plans(rl, possible) if texts.pinned else {},
        fields=[*texts.fields, _boxes("Sessions", possible, now)],
        lines=lines,
        typed=str(len(possible)) if verb == "remove" else "",
        danger=verb == "remove",
        why_not="" if possible else "for none of these sessions",
        done=texts.done,
        goes="/",
    )


def archive_dialog(rl: Relight, now: datetime) -> Dialog:
    """The dialog that archives completed sessions."""
    found, more = finished(rl)
    rest = f" {more:,} more are finished: repeat it for them." if more else ""
    made = several_dialog(rl, "archive", found, now)
    return msgspec.structs.replace(
        made,
        title="Archive finished sessions",
        happens=made.happens.replace("session", "completed session", 1) + rest,
        why_not="" if found else "nothing is finished",
    )


def resume_dialog(rl: Relight, cause: str, now: datetime) -> Dialog:
    """The dialog that resumes sessions that stopped for one cause. NotFound if there are fewer than two now."""
    group = next((one.sessions for one in stopped_alike(rl) if one.cause == cause), None)
    if group is None:
        raise NotFound(cause[:100], what="group of sessions that stopped for the same reason:")
    rest = f" {len(group) - MAX:,} more stopped for this reason: repeat it for them." if len(group) > MAX else ""
    made = several_dialog(rl, "resume", group[:MAX], now)
    return msgspec.structs.replace(made, title=f"Resume what stopped: {cause}", happens=made.happens + rest)


def _plans(rl: Relight, infos: Sequence[SessionInfo]) -> dict[str, Any]:
    return {"plans": {info.id: rl.runs.plan_hash(info.id) for info in infos}}


def _boxes(label: str, infos: Sequence[SessionInfo], now: datetime) -> Field:
    return Field(
        kind="boxes",
        name="sessions",
        label=label,
        required=True,
        options=[
            Option(value=info.id, label=words.title(info), note=_note(info, now), on=True, risky=False)
            for info in infos
        ],
    )


def _note(info: SessionInfo, now: datetime) -> str:
    ago = f"{words.age(words.seconds_between(info.updated_at, now))} ago"
    said = first_line(info.reason) if info.status != "completed" else info.said
    return ", ".join(filter(None, (info.status, f"@{info.head}", ago, shortened(one_line(said or ""), 70))))


def _for_each(infos: Sequence[SessionInfo], verb: str, *flags: str) -> str:
    names = " ".join(shlex.quote(words.ref(info)) for info in infos)
    return f'for s in {names}; do {" ".join(("relight", verb, *flags))} "$s"; done'
