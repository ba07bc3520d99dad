"""File rows of a restore plan, for restore, undo and rewind: a letter, the path, a remark.

M is overwritten, A is created, D is deleted, = is kept although it differs, ! is a conflict that needs a choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from relight.cli.render.cells import cells, cut
from relight.cli.render.console import printable
from relight.cli.render.style import Line, Role, Span, Style
from relight.history.documents import path_text
from relight.text.format import count
from relight.values.snapshot import RestoreOutcome, RestorePlan, Skipped

if TYPE_CHECKING:
    from relight.files.diff import FileDiff

MAX_PATHS: Final = 200
"""on a terminal; a pipe and --json get all of them"""
_MAX_LEFT_OUT: Final = 5
_BACK: Final = {"added": "D", "changed": "M", "deleted": "A"}
"""change since the checkpoint to what a restore does about it"""

Differences = Mapping[tuple[str, str], "FileDiff"]
"""(root, path) to how the disk differs from the checkpoint there"""


class FileRow(NamedTuple):
    """One path of a plan."""

    letter: str
    path: str
    text: str = ""
    role: Role = ""


def file_rows(
    plans: Mapping[str, RestorePlan], differences: Differences | None = None, *, conflict: str = ""
) -> list[FileRow]:
    """Rows of all roots: conflicts, then files that may run later. `conflict` replaces a conflict's reason."""
    rows: list[FileRow] = []
    for root, plan in plans.items():
        prefix = f"{root}:" if len(plans) > 1 else ""
        rows += [row._replace(path=prefix + row.path) for row in _rows(root, plan, differences or {}, conflict)]
    order = {"!": 0, "warn": 1}
    return sorted(rows, key=lambda row: (row.letter == "=", order.get(row.letter, order.get(row.role, 2))))


def _rows(root: str, plan: RestorePlan, differences: Differences, conflict: str) -> Iterator[FileRow]:
    runs = set(plan.decision.may_run_later)
    for one in plan.decision.conflicts:
        path = path_text(one.path)
        known = differences.get((root, path))
        yield FileRow(_BACK.get(known.what, "!") if known else "!", path, conflict or one.reason, "warn")
    for action in plan.decision.writes:
        path = path_text(action.path)
        counts = _counts(differences.get((root, path)))
        if action.path in runs:
            yield FileRow("M" if action.found is not None else "A", path, f"{counts}  may run later".strip(), "warn")
        else:
            yield FileRow("M" if action.found is not None else "A", path, counts)
    for action in reversed(plan.decision.deletes):
        yield FileRow("D", path_text(action.path), _counts(differences.get((root, path_text(action.path)))))
    for one in plan.decision.kept:
        yield FileRow("=", path_text(one.path), f"kept: {one.reason}", "dim")


def _counts(known: FileDiff | None) -> str:
    """Added and removed lines, from the disk to the checkpoint."""
    return f"+{known.lines_removed} -{known.lines_added}" if known is not None and known.text else ""


def plan_lines(
    plans: Mapping[str, RestorePlan], style: Style, differences: Differences | None = None, *, conflict: str = ""
) -> list[Line]:
    """What a restore writes, deletes and keeps, its conflicts, and what was left out."""
    rows = file_rows(plans, differences, conflict=conflict)
    limit = MAX_PATHS if style.terminal else len(rows)
    lines = [_line(row, style) for row in rows[:limit]]
    if len(rows) > limit:
        lines.append([f"  and {count(len(rows) - limit, 'more path')}; all of them: --json"])
    if not rows:
        lines.append(["  nothing to do: the files are unchanged since then"])
    return lines + [line for plan in plans.values() for line in _left_out(plan.left_out, style)]


def _line(row: FileRow, style: Style) -> Line:
    text = f"  {row.text}" if row.text else ""
    room = style.width - 4
    path, text = printable(row.path, style), printable(text, style)
    if cells(path) + cells(text) > room:
        text = cut(text, max(room - cells(path), room // 2), ellipsis=style.ellipsis)
        path = cut(path, room - cells(text), ellipsis=style.ellipsis)
    return ["  ", Span(row.letter, row.role), " ", path, Span(text, row.role or "dim")]


def _left_out(left_out: tuple[Skipped, ...], style: Style) -> list[Line]:
    listed = [one for one in left_out if one.reason != "ignored"]
    if not listed:
        return []
    names = ", ".join(f"{path_text(one.path)} ({one.reason})" for one in listed[:_MAX_LEFT_OUT])
    more = f" and {len(listed) - _MAX_LEFT_OUT} more" if len(listed) > _MAX_LEFT_OUT else ""
    text = printable(f"  not captured then, not touched now: {names}{more}", style)
    return [[Span(cut(text, style.width, ellipsis=style.ellipsis), "dim")]]


def touched(plans: Mapping[str, RestorePlan]) -> int:
    """Number of files that a plan writes or deletes, without directories."""
    actions = [one for plan in plans.values() for one in (*plan.decision.writes, *plan.decision.deletes)]
    return sum(1 for one in actions if (entry := one.entry or one.found) is not None and entry.kind != "dir")


def outcome_text(outcomes: Mapping[str, RestoreOutcome]) -> str:
    """One line about a restore that was done."""
    written = sum(one.written for one in outcomes.values())
    deleted = sum(one.deleted for one in outcomes.values())
    text = f"{count(written, 'path')} written, {count(deleted, 'path')} deleted"
    changed = [path_text(path) for one in outcomes.values() for path in one.changed_meanwhile]
    aside = [path_text(path) for one in outcomes.values() for path in one.saved_aside]
    text += f"; changed meanwhile and kept: {', '.join(changed)}" if changed else ""
    modes = sum(one.other_modes for one in outcomes.values())
    text += f"; {count(modes, 'path')} got another mode, which the file system decides" if modes else ""
    return f"{text}; saved aside: {', '.join(aside)}" if aside else text
