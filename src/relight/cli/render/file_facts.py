"""Facts about a session's files, for `show`, the resume plan and a checkpoint."""

from __future__ import annotations

from typing import Final

from relight.cli.render.cells import cut
from relight.cli.render.console import printable
from relight.cli.render.style import Line, Span, Style
from relight.text.facts import Fact, differences
from relight.text.format import count, display_path, size
from relight.text.safe import one_line
from relight.values.info import FilesState

_MAX_PATHS: Final = 10
_MAX_LEFT_OUT: Final = 5
_LETTERS: Final = {"added": "A", "changed": "M", "deleted": "D"}


def changed_fact(state: FilesState | None) -> Fact:
    """Changes since the first capture; the text is empty without a workspace."""
    if state is None:
        return Fact("files", "")
    parts = [f"workspace missing: {display_path(one)}" for one in state.missing]
    if state.captured_at is None:
        parts.append("nothing captured yet")
    elif state.changed is not None:
        known = state.lines_added is not None and state.lines_removed is not None
        lines = f", +{state.lines_added:,} -{state.lines_removed:,}" if known and state.changed else ""
        parts.append(f"{state.changed:,} changed{lines} since the start" if state.changed else "none changed")
        left_out = len(not_ignored(state))
        parts += [f"{left_out} left out"] if left_out else []
    parts += [one_line(state.trouble)] if state.trouble else []
    return Fact("files", "; ".join(parts), "warn" if state.missing or state.trouble else "")


def checkpoint_facts(state: FilesState | None) -> list[Fact]:
    """How the disk differs from a checkpoint, with the first paths."""
    if state is None:
        return []
    if state.captured_at is None or state.differ is None:
        why = "; ".join(f"workspace missing: {display_path(one)}" for one in state.missing) or one_line(
            state.trouble or ""
        )
        first = f"as of @{state.captured_at}" if state.captured_at is not None else "nothing captured up to here"
        return [Fact("files", "; ".join(filter(None, (first, why))), "warn" if why else "")]
    if not state.differ:
        return [Fact("files", "as on disk now")]
    facts = [Fact("files", differences(state.differ, "from disk now"))]
    later = sum(one.later for one in state.differ)
    if later:
        was = "1 of them was" if later == 1 else f"{later} of them were"
        facts.append(Fact("", f"{was} changed after the last capture (by you?)", "warn"))
    roots = len({one.root for one in state.differ}) > 1
    for one in state.differ[:_MAX_PATHS]:
        name = f"{one.root}:{one.path}" if roots else one.path
        facts.append(Fact("", f"{_LETTERS[one.what]} {name}", "warn" if one.later else ""))
    if len(state.differ) > _MAX_PATHS:
        facts.append(Fact("", f"and {len(state.differ) - _MAX_PATHS} more"))
    return facts


def not_ignored(state: FilesState) -> list[tuple[str, str]]:
    """(path, reason) of files left out, except those in an ignore file."""
    roots = len(state.workspace) > 1
    return [
        (
            f"{one.root}:{one.path}" if roots else one.path,
            f"{one.reason}{f', {size(one.size_bytes)}' if one.size_bytes else ''}",
        )
        for one in state.left_out or ()
        if one.reason != "ignored"
    ]


def left_out_fact(state: FilesState | None) -> Fact:
    """The first files that a checkpoint does not hold, with reasons; the text is empty if it holds all."""
    left_out = not_ignored(state) if state is not None else []
    names = ", ".join(f"{path} ({reason})" for path, reason in left_out[:_MAX_LEFT_OUT])
    more = f" and {len(left_out) - _MAX_LEFT_OUT} more" if len(left_out) > _MAX_LEFT_OUT else ""
    return Fact("left out", f"{names}{more}")


def left_out_lines(state: FilesState | None, style: Style) -> list[Line]:
    """Every path that is not captured, with its reason; ignored paths are only counted."""
    if state is None or not state.left_out:
        return []
    listed = not_ignored(state)
    lines: list[Line] = [[], [Span("files left out", "dim")]]
    lines += [["  ", cut(printable(f"{path}  ({reason})", style), style.width - 2)] for path, reason in listed]
    ignored = len(state.left_out) - len(listed)
    return [*lines, [f"  {count(ignored, 'path')} ignored"]] if ignored else lines
