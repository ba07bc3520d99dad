"""The two things that are done to several sessions at once: archive what is finished, resume what stopped alike.

Each shows its list first; whatever is taken out of it stays as it is.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from relight.errors import NotFound
from relight.server.api.several import MAX, finished, stopped_alike
from relight.server.pages.dialog_values import Dialog, Field, Option
from relight.text import format as words
from relight.text.safe import one_line, shortened
from relight.values.info import SessionInfo

if TYPE_CHECKING:
    from relight.library.facade import Relight


def archive_dialog(rl: Relight, now: datetime) -> Dialog:
    """Of all that is completed."""
    found, more = finished(rl)
    rest = f" {more:,} more are finished: do it again for them." if more else ""
    return Dialog(
        title="Archive finished sessions",
        confirm="Archive them",
        happens=f"Take {words.count(len(found), 'completed session')} out of the list, never to be resumed.{rest}",
        kept="Each can be read, forked and exported, until a sweep's time is over.",
        back="Fork the head of one to go on with it.",
        command=_for_each(found, "archive"),
        path="/api/archive",
        body={"plans": {info.id: rl.plan_hash(info.id) for info in found}},
        fields=[_boxes("Finished sessions", found, now)],
        why_not="" if found else "nothing is finished",
        done="archived",
        goes="/",
    )


def resume_dialog(rl: Relight, cause: str, now: datetime) -> Dialog:
    """Of those that stopped for one reason. NotFound where there are no two of them any more."""
    group = next((one.sessions for one in stopped_alike(rl) if one.cause == cause), None)
    if group is None:
        raise NotFound(cause[:100], what="group of sessions that stopped alike:")
    shown = group[:MAX]
    rest = f" {len(group) - MAX:,} more stopped so: do it again for them." if len(group) > MAX else ""
    doubt = sum(1 for info in shown if info.in_doubt)
    told = f"{words.count(doubt, 'session')} with calls in doubt: the model is told that their outcome is unknown"
    return Dialog(
        title=f"Resume what stopped: {cause}",
        confirm="Resume them",
        happens=f"Start {words.count(len(shown), 'session')} again, one after the other, each at its head.{rest}",
        kept="Nothing that is finished runs again; one that cannot start stays as it is, and you are told why.",
        back="Stop any of them at any time.",
        command=_for_each(shown, "resume", "--detach"),
        path="/api/resume",
        body={"plans": {info.id: rl.plan_hash(info.id) for info in shown}},
        fields=[_boxes("Sessions", shown, now)],
        lines=[("calls", told, "warn")] if doubt else [],
        done="resumed",
        goes="/",
    )


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
    said = info.reason if info.status != "completed" else info.said
    return ", ".join(filter(None, (f"@{info.head}", ago, shortened(one_line(said or ""), 70))))


def _for_each(infos: Sequence[SessionInfo], verb: str, *flags: str) -> str:
    names = " ".join(shlex.quote(words.ref(info)) for info in infos)
    return f'for s in {names}; do {" ".join(("relight", verb, *flags))} "$s"; done'
