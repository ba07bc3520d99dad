"""`relight diff`: compare the files of two checkpoints, or of one and the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.render.cells import broken
from relight.cli.render.console import printable
from relight.cli.render.style import Line, Part, Role, Span, Style
from relight.cli.render.table import Column, table
from relight.text.format import count, size

if TYPE_CHECKING:
    from relight.files.diff import FileDiff

LETTERS: Final = {"added": "A", "changed": "M", "deleted": "D", "left out": "-"}
_ROLES: Final[dict[str, Role]] = {"+": "ok", "-": "bad", "@": "ref"}
_TEXT_LINES: Final = 500
"""lines printed of one file on a terminal"""
_TAB: Final = 4
_COLUMNS: Final = [Column(""), Column("", least=12), Column("", least=10), Column("", least=8, drop=1)]


@verb(
    "diff",
    ("diff fix-login@206", "from that checkpoint to the disk"),
    ("diff fix-login@1 fix-login --stat", "what the session changed, in counts"),
)
@ref_argument("a")
@ref_argument("b", required=False)
@click.option("--stat", is_flag=True, help="Only the files and their counts.")
@json_flag
@pass_context
def diff(cli: CliContext, a: str, b: str | None, stat: bool, as_json: bool) -> int:
    """Compare the files of two checkpoints. Without B, compare A with the disk.

    A session stands for its head; a checkpoint before the first capture for the first capture.
    """
    with cli.opened() as rl:
        found = rl.files.diff(a, b)
    console = cli.console
    if as_json:
        console.document([msgspec.to_builtins(one) for one in found])
        return 0
    # The table is for a terminal; a pipe gets records with --stat, and else the unified diff alone.
    if stat and not console.out.terminal:
        for one in found:
            console.row((LETTERS[one.what], one.path, one.lines_added, one.lines_removed, one.root))
    if console.out.terminal and found:
        console.write(stat_lines(found, console.out))
    if not stat:
        for one in found:
            console.write(_text_lines(one, console.out), tabs=not console.out.terminal)
    console.say(summary(found))
    return 0


def stat_lines(found: list[FileDiff], style: Style) -> list[Line]:
    """One line for each file; files that may run later first, those left out last."""
    roots = len({one.root for one in found}) > 1
    rows: list[list[Part]] = []
    for one in sorted(found, key=lambda one: (not one.may_run_later, one.what == "left out")):
        name = f"{one.root}:{one.path}" if roots else one.path
        later = Span("may run later" if one.may_run_later else "", "warn")
        rows.append([LETTERS[one.what], name, Span(_counts(one), "dim"), later])
    return table(_COLUMNS, rows, style, header=False)


def _counts(one: FileDiff) -> str:
    if one.what == "left out":
        return f"left out: {one.kind}"
    if one.kind == "dir":
        return "directory"
    if one.lines_added is None:
        return f"{one.kind if one.kind != 'file' else 'binary'}, {size(one.size_before)} -> {size(one.size_after)}"
    if not one.text:
        return "mode changed" if one.what == "changed" else "empty"
    return f"+{one.lines_added} -{one.lines_removed}"


def _text_lines(one: FileDiff, style: Style) -> list[Line]:
    """The unified diff; on a terminal long lines are wrapped and long diffs are cut."""
    lines = one.text.removesuffix("\n").split("\n") if one.text else []
    if not style.terminal:
        return [[line] for line in lines]
    out: list[Line] = [[]] if lines else []
    for line in lines[:_TEXT_LINES]:
        role = _ROLES.get(line[:1], "")
        out += [[Span(piece, role)] for piece in broken(printable(line.expandtabs(_TAB), style), style.width)]
    if len(lines) > _TEXT_LINES:
        out.append(
            [Span(f"{count(len(lines) - _TEXT_LINES, 'more line')}; all of them: relight diff ... | less", "dim")]
        )
    return out


def summary(found: list[FileDiff]) -> str:
    """Totals of a diff in one line."""
    changed = [one for one in found if one.what != "left out"]
    left = len(found) - len(changed)
    if not found:
        return "no file differs"
    added = sum(one.lines_added or 0 for one in changed)
    removed = sum(one.lines_removed or 0 for one in changed)
    text = f"{count(len(changed), 'file')}, +{added} -{removed}"
    return f"{text}; {left} left out" if left else text
