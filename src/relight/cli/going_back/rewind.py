"""`relight rewind`: move a session back to a checkpoint. There is no default scope."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import click
import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.going_back.restore import choice_options, differences_of
from relight.cli.render.cells import cells, cut, pad
from relight.cli.render.console import printable
from relight.cli.render.file_lines import FileRow, file_rows, touched
from relight.cli.render.plan import not_undone
from relight.cli.render.style import Line, Part, Span, Style
from relight.cli.render.table import facts
from relight.errors import Corrupt, Refused, RelightError, ScopeRequired, UsageError
from relight.history.documents import call_document, checkpoint_document
from relight.text.facts import Fact, call_facts
from relight.text.format import count
from relight.values.call import Call, PlannedCall
from relight.values.info import SessionInfo
from relight.values.snapshot import Choice
from relight.values.status import LIVE

if TYPE_CHECKING:
    from relight.library.facade import Relight
    from relight.values.checkpoint import Checkpoint

Scope = Literal["conversation", "files", "both"]
_ROWS: Final = 20
_PATH_CELLS: Final = 40
_LEAST_CELLS: Final = 16
_BESIDE: Final = 50
"""cells reserved for the columns beside a path"""


class FilesPreview(NamedTuple):
    """What a rewind would do to files."""

    rows: tuple[FileRow, ...] = ()
    touched: int = 0
    trouble: str = ""
    """why the files cannot be restored"""
    stay: bool = False
    """the scope excludes files"""


class Preview(NamedTuple):
    """What a rewind would do, printed before it asks."""

    info: SessionInfo
    target: int
    label: str | None
    effects: list[Call] | None
    files: FilesPreview | None = None
    """None: the session has no workspace"""
    calls: list[PlannedCall] | None = []  # noqa: RUF012 a tuple's default is never changed
    """open calls at the target and what is done about each; None: the journal is damaged"""
    scope: Scope | None = None
    """the scope; None: not chosen yet"""


@verb(
    "rewind",
    ("rewind fix-login@206 --both", "conversation and files"),
    ("rewind fix-login@tests-green", "prints what would change, and asks"),
)
@ref_argument("checkpoint")
@click.option("--conversation", "scope", flag_value="conversation", help="Rewind the conversation.")
@click.option("--files", "scope", flag_value="files", help="Rewind the files.")
@click.option("--both", "scope", flag_value="both", help="Rewind both.")
@click.option("--again", multiple=True, metavar="CALL", help="Let this call or once key run again, as KEY/2.")
@click.option("--take", multiple=True, metavar="PATH", help="Restore this file, although it was changed outside.")
@click.option("--dry-run", is_flag=True, help="Print what would happen; change nothing.")
@choice_options
@json_flag
@pass_context
def rewind(
    cli: CliContext,
    checkpoint: str,
    scope: Scope | None,
    again: tuple[str, ...],
    take: tuple[str, ...],
    dry_run: bool,
    choice: Choice | None,
    as_json: bool,
) -> int:
    """Move a session back to CHECKPOINT. Nothing is deleted, and `relight undo` undoes it.

    A call that is open there and has run since does not run again: its result is carried over, unless --again names it.
    """
    console = cli.console
    if scope == "files" and again:
        raise UsageError("--again applies to the conversation, which --files does not change")
    if scope == "conversation" and choice is not None:
        raise UsageError(f"--{choice} applies to files, which --conversation does not change")
    if scope == "conversation" and take:
        raise UsageError("--take names files, which --conversation does not change")
    if dry_run:
        return _print_preview(cli, checkpoint, scope, choice or "stop", again, as_json=as_json)
    if scope is None and not console.can_ask:
        raise ScopeRequired(checkpoint)
    with cli.opened() as rl:
        preview = _preview(rl, checkpoint, scope, choice or "stop", again)
        if console.err.terminal:
            console.lines(lines_of(preview, console.err))
        scope = scope or _ask(cli)
        if scope is None:
            console.say("nothing was changed")
            return 0
        if scope != "conversation":
            _refuse_without_files(preview, checkpoint)
        # The preview is not pinned: the rewind plans again, and stops at conflicts that appeared meanwhile.
        began = perf_counter()
        made = rl.history.rewind(
            checkpoint,
            conversation=scope != "files",
            files=scope != "conversation",
            choice=choice or "stop",
            take=take if scope != "conversation" else (),
            again=again if scope != "files" else (),
        )
        seconds = perf_counter() - began
    if as_json:
        console.document(checkpoint_document(made))
    elif console.out.terminal:
        console.write([_done(preview, scope, seconds)])
    else:
        console.row(_record(preview, scope, made))
    console.next(("undo", f"relight undo {preview.info.title}"))
    return 0


def _record(preview: Preview, scope: Scope, made: Checkpoint) -> tuple[str, int, str]:
    return made.id, made.seq if scope == "files" else preview.target, scope


def _print_preview(
    cli: CliContext, checkpoint: str, scope: Scope | None, choice: Choice, again: tuple[str, ...], *, as_json: bool
) -> int:
    with cli.opened() as rl:
        preview = _preview(rl, checkpoint, scope, choice, again)
    if not as_json:
        cli.console.write(lines_of(preview, cli.console.out))
        return 0
    effects = preview.effects
    cli.console.document(
        {
            "session": preview.info.id,
            "head": preview.info.head,
            "target": preview.target,
            "scope": preview.scope,
            "calls": msgspec.to_builtins(preview.calls),
            "effects_since": [call_document(one) for one in effects] if effects is not None else None,
            "files": msgspec.to_builtins(preview.files._asdict()) if preview.files is not None else None,
        }
    )
    return 0


def _preview(rl: Relight, checkpoint: str, scope: Scope | None, choice: Choice, again: tuple[str, ...]) -> Preview:
    if "@" not in checkpoint:
        raise UsageError("a rewind needs a checkpoint", hints=["name it: SESSION@SEQ or SESSION@LABEL"])
    plan = rl.runs.plan(checkpoint, disk=False)
    info = rl.sessions.get(plan.session)
    target = int(plan.checkpoint.rpartition("@")[2])
    label = next((one.label for one in rl.history.checkpoints(info.id) if one.seq == target), None)
    files = None
    if plan.files is not None:
        files = FilesPreview(stay=True) if scope == "conversation" else _files(rl, checkpoint, info, choice)
    calls = _calls(rl, checkpoint, again) if scope != "files" else []
    return Preview(info, target, label, rl.history.effects_since(info.id, target), files, calls, scope)


def _calls(rl: Relight, checkpoint: str, again: tuple[str, ...]) -> list[PlannedCall] | None:
    """What is done about open calls; those named by --again run again."""
    try:
        calls = rl.history.planned_calls(checkpoint, after="rewind")
    except Corrupt:
        return None
    return [
        msgspec.structs.replace(one, action="run", text="runs again under a new key", carried_from=None)
        if one.id in again or one.key in again
        else one
        for one in calls
    ]


def _files(rl: Relight, checkpoint: str, info: SessionInfo, choice: Choice) -> FilesPreview:
    """Preview of the files, from a dry run. A failure is part of the preview: the conversation may still be rewound."""
    try:
        plans = rl.files.restore(checkpoint, choice=choice, dry_run=True).plans
        differences = differences_of(rl, checkpoint)
    except RelightError as error:
        return FilesPreview(trouble=error.message)
    rows = file_rows(plans, differences, conflict=f"you changed this after @{info.head}")
    return FilesPreview(rows=tuple(rows), touched=touched(plans))


def _refuse_without_files(preview: Preview, checkpoint: str) -> None:
    hints = [f"relight rewind {checkpoint} --conversation"]
    if preview.files is None:
        what = f"{preview.info.title}: this session has no workspace, so there are no files to restore"
        raise Refused(what, hints=hints)
    if preview.files.trouble:
        raise Refused(f"the files cannot be restored: {preview.files.trouble}", hints=hints)


def lines_of(preview: Preview, style: Style) -> list[Line]:
    """Heads, files, and effects that cannot be undone."""
    info, target = preview.info, preview.target
    gone = max(0, info.head - target) if preview.scope != "files" else 0
    kept = (
        f"{count(gone, 'step')} leave the model's view (kept, still @{target + 1} to @{info.head})"
        if gone
        else "as it is"
    )
    label = f' "{preview.label}"' if preview.label else ""
    entries = [Fact("conversation", kept), *_file_facts(preview.files, style), not_undone(preview.effects)]
    entries += call_facts(preview.calls or (), "calls")
    if preview.calls is None:
        entries.append(Fact("calls", "unknown: a newer step is damaged", "warn"))
    if info.status in LIVE:
        entries.append(Fact("", f"✗ it runs: stop it first (relight stop {info.title})", "bad"))
    title = printable(f"{info.title}  @{info.head} -> @{target}{label}", style)
    title = cut(title, style.width, ellipsis=style.ellipsis)
    name = printable(info.title, style)
    head: Line = [Span(title[: len(name)], "bold"), title[len(name) :]]
    return [head, *facts([one for one in entries if one.text], style)]


def _file_facts(files: FilesPreview | None, style: Style) -> list[Fact]:
    if files is None:
        return []
    if files.stay:
        return [Fact("files", "stay as they are")]
    if files.trouble:
        return [Fact("files", files.trouble, "warn")]
    moving = [row for row in files.rows if row.letter != "="]
    kept = len(files.rows) - len(moving)
    room = min(_PATH_CELLS, style.width - _BESIDE)
    paths = [printable(row.path, style) for row in moving[:_ROWS]]
    if room >= _LEAST_CELLS:  # else too narrow for columns: paths are wrapped like words
        paths = [cut(path, room, ellipsis=style.ellipsis) for path in paths]
    width = max(map(cells, paths), default=0) if room >= _LEAST_CELLS else 0
    lines = [
        (f"{row.letter} {pad(path, width)}  {row.text}".rstrip(), row.role)
        for row, path in zip(moving[:_ROWS], paths, strict=True)
    ]
    if len(moving) > _ROWS:
        lines.append((f"and {len(moving) - _ROWS} more; all of them: relight diff", ""))
    if kept:
        lines.append((f"kept: {kept} that no snapshot holds, or that others changed", "dim"))
    if not lines:
        lines.append(("unchanged", ""))
    return [Fact("files" if number == 0 else "", *line) for number, line in enumerate(lines)]


def _done(preview: Preview, scope: Scope, seconds: float) -> Line:
    parts: list[Part] = []
    if scope != "conversation" and preview.files is not None:
        restored = f"{count(preview.files.touched, 'file')} restored in {seconds * 1000:.0f} ms"
        parts += [Span("✓", "ok"), " safety snapshot   ", Span("✓", "ok"), f" {restored}   "]
    if scope != "files":
        parts += [Span("✓", "ok"), f" head is @{preview.target}"]
    return parts


def _ask(cli: CliContext) -> Scope | None:
    answer = cli.console.ask("what goes back?  [c]onversation  [f]iles  [b]oth  [N]othing:").lower()
    scopes: dict[str, Scope] = {"c": "conversation", "f": "files", "b": "both"}
    return scopes.get(answer[:1])
