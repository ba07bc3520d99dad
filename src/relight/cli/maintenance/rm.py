"""`relight rm`: remove a session, or all with a label, permanently."""

from __future__ import annotations

from collections.abc import Collection

import click
import msgspec

from relight.cli.app.attempts import Attempts
from relight.cli.app.context import CliContext, confirm, pass_context
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.inspect.list import label_pairs
from relight.cli.render.console import wrapped
from relight.cli.render.style import Line, Span
from relight.errors import UsageError
from relight.operations.remove import Removed
from relight.text.format import count, size


@verb(
    "rm",
    ("rm fix-login", "prints what is removed, and asks"),
    ("rm --label team=docs --dry-run", "print what would be removed"),
)
@ref_argument(required=False)
@click.option("--with-forks", is_flag=True, help="Also remove sessions forked from it.")
@click.option("--with-children", is_flag=True, help="Also remove sessions that it spawned.")
@click.option("--label", "labels", multiple=True, metavar="K=V", help="All sessions with this label.")
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_flag
@pass_context
def rm(
    cli: CliContext,
    ref: str | None,
    with_forks: bool,
    with_children: bool,
    labels: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Remove sessions permanently, with their captured files."""
    below = {"with_forks": with_forks, "with_children": with_children}
    if (ref is None) == (not labels):
        raise UsageError("name one session, or use --label KEY=VALUE")
    with cli.opened() as rl:
        labelled = [] if ref is not None else rl.sessions.list(labels=label_pairs(labels))
        titles = {ref: ref} if ref is not None else {info.id: info.title for info in labelled}
        # A dry run first, so that the question names everything that goes, forks and children included.
        attempts = Attempts(cli, single=ref is not None)
        plans: dict[str, Removed] = {}
        for one, title in titles.items():
            with attempts.of(title):
                plans[one] = rl.sessions.remove(one, **below, dry_run=True)
        planned = _merged(plans.values(), dry_run=True)
        if dry_run or not planned.sessions:
            return print_removed(cli, planned, as_json=as_json) or attempts.exit_code("removed")
        if not confirm(cli, _question(planned), yes=yes):
            return 0
        removed: list[Removed] = []
        for one in plans:
            with attempts.of(titles[one]):
                if len(plans) == 1 or rl.sessions.find(one) is not None:  # else it went with its parent
                    removed.append(rl.sessions.remove(one, **below))
    return print_removed(cli, _merged(removed, dry_run=False), as_json=as_json) or attempts.exit_code("removed")


def _merged(parts: Collection[Removed], *, dry_run: bool) -> Removed:
    by_id = {session: name for part in parts for session, name in zip(part.sessions, part.names, strict=True)}
    return Removed(
        sessions=list(by_id),
        names=list(by_id.values()),
        steps=sum(part.steps for part in parts),
        size_bytes=sum(part.size_bytes for part in parts),
        file_bytes=sum(part.file_bytes for part in parts),
        dry_run=dry_run,
    )


def _question(planned: Removed) -> str:
    names = ", ".join(planned.names[:5]) + (f" and {len(planned.names) - 5} more" if len(planned.names) > 5 else "")
    return f"remove {names}: {count(planned.steps, 'step')}, {bytes_text(planned)}, permanently?"


def bytes_text(removed: Removed) -> str:
    """Size of the journal, and of captured files that no other session needs."""
    journal = size(removed.size_bytes)
    return f"{journal} of journal, {size(removed.file_bytes)} of files" if removed.file_bytes else journal


def print_removed(cli: CliContext, removed: Removed, *, as_json: bool) -> int:
    """Print the names, then the totals."""
    console = cli.console
    if as_json:
        console.document(msgspec.to_builtins(removed))
        return 0
    pairs = list(zip(removed.sessions, removed.names, strict=True))
    if not console.out.terminal:
        for session, name in pairs:
            console.row((session, name))
    verb = "would be removed" if removed.dry_run else "removed"
    total = f"{count(len(pairs), 'session')}, {count(removed.steps, 'step')}, {bytes_text(removed)} {verb}"
    if console.out.terminal:
        lines: list[Line] = [["  ", Span(name, "bold"), f"  {session[:8]}"] for session, name in pairs]
        console.write([*lines, *wrapped([total], console.out)])
    else:
        console.say(total)
    return 0
