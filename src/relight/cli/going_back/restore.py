"""`relight restore`: restore the files of a checkpoint; can be undone."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.render.file_lines import Differences, outcome_text, plan_lines
from relight.cli.render.style import Span
from relight.history.documents import restore_document
from relight.values.snapshot import Choice

if TYPE_CHECKING:
    from relight.library.facade import Relight

_F = TypeVar("_F", bound=Callable[..., Any])
_CHOICES: Final = (
    ("--force", "Use the checkpoint everywhere, even if that deletes a changed file."),
    ("--ours", "Use the checkpoint's file where it has one."),
    ("--theirs", "Keep files that were changed by others."),
)


def choice_options(function: _F) -> _F:
    """Options that resolve conflicts: paths changed by others since the session's last capture."""
    for flag, meaning in _CHOICES:
        function = click.option(flag, "choice", flag_value=flag[2:], help=meaning)(function)
    return function


@verb(
    "restore",
    ("restore fix-login@206 --dry-run", "what would be written, deleted, kept"),
    ("restore fix-login@206 src/auth.py", "one file"),
)
@ref_argument("checkpoint")
@click.argument("paths", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Only print what would happen.")
@choice_options
@click.option("--exact", is_flag=True, help="Also delete files that no snapshot held, after the safety snapshot.")
@json_flag
@pass_context
def restore(
    cli: CliContext,
    checkpoint: str,
    paths: tuple[str, ...],
    dry_run: bool,
    choice: Choice | None,
    exact: bool,
    as_json: bool,
) -> int:
    """Restore the files of CHECKPOINT. A session stands for its head. No file is lost that no snapshot holds."""
    console = cli.console
    with cli.opened() as rl:
        info = rl.sessions.get(checkpoint)
        differences = differences_of(rl, checkpoint) if dry_run and not as_json else None
        report = rl.files.restore(checkpoint, paths=paths, choice=choice or "stop", exact=exact, dry_run=dry_run)
    if as_json:
        step = report.checkpoint.id if report.checkpoint is not None else None
        console.document(
            {"session": info.id, "dry_run": dry_run, "step": step, "plans": restore_document(report.plans)}
        )
        return 0
    conflict = f"you changed this after @{info.head}"
    console.write(plan_lines(report.plans, console.out, differences, conflict=conflict))
    if dry_run:
        flags = [f"--{choice}"] if choice else []
        words = ["relight", "restore", checkpoint, *paths, *flags, *(["--exact"] if exact else [])]
        console.next(("do it", shlex.join(words)))
        return 0
    console.say(Span("✓ ", "ok"), f"safety snapshot, {outcome_text(report.outcomes)}")
    console.next(("undo", f"relight undo {info.title}"))
    return 0


def differences_of(rl: Relight, checkpoint: str) -> Differences:
    """How the disk differs from a checkpoint, by root and path."""
    return {(one.root, one.path): one for one in rl.files.diff(checkpoint) if one.what != "left out"}
