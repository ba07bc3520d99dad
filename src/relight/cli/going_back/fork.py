"""`relight fork`: create a session from a checkpoint; the original is not changed."""

from __future__ import annotations

import click
import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.render.style import Line, Span
from relight.cli.render.table import facts
from relight.history.documents import session_document
from relight.text.facts import Fact, call_facts
from relight.text.format import display_path, fork_files


@verb(
    "fork",
    ("fork fix-login@206 --workspace ../try2", "a second try from there, in its own directory"),
    ('fork fix-login "use argon2" --name argon', "with a prompt and a name"),
)
@ref_argument("checkpoint")
@click.argument("prompt", required=False)
@click.option("--name", metavar="N", help="Name of the new session.")
@click.option("--edit", metavar="TEXT", help="Another text for the checkpoint's last message or tool result.")
@click.option(
    "--workspace",
    metavar="DIR",
    help="A new directory, filled now with the checkpoint's files (default: beside the original, at the first start).",
)
@click.option("--dry-run", is_flag=True, help="Print what would be done about files and open calls; create nothing.")
@json_flag
@pass_context
def fork(
    cli: CliContext,
    checkpoint: str,
    prompt: str | None,
    name: str | None,
    edit: str | None,
    workspace: str | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Create a session that begins at CHECKPOINT. A session stands for its head.

    It never runs a call that the model made before: such a call gets the result it has by now, or a note that it
    belongs to the original session.
    """
    console = cli.console
    if dry_run:
        return _print_plan(cli, checkpoint, name, workspace, as_json=as_json)
    with cli.opened() as rl:
        calls = rl.history.planned_calls(checkpoint, after="fork")
        made = rl.history.fork(checkpoint, name=name, prompt=prompt, edit=edit, workspace=workspace)
    if as_json:
        console.document(session_document(made))
        return 0
    where = ", ".join(display_path(path) for path in made.workspace.values())
    if not console.out.terminal:
        console.row((made.id, made.name, made.parent))
    else:
        parent = f"{(made.parent or '')[:8]}@{made.head}" if made.parent else "nothing"
        line: Line = [Span("✓ ", "ok"), Span(made.title, "bold"), f"  forked from {checkpoint} ({parent})"]
        console.write([line])
        if workspace is not None:
            console.write([["  files  ", where]])
    if where and workspace is None:
        console.say(f"its files will be in {where}, as of the checkpoint: its first start creates it")
    console.lines(facts(call_facts(calls, "calls"), console.err))
    console.next(("continue", f"relight resume {made.title}"))
    return 0


def _print_plan(cli: CliContext, checkpoint: str, name: str | None, workspace: str | None, *, as_json: bool) -> int:
    console = cli.console
    with cli.opened() as rl:
        files = rl.files.plan_fork(checkpoint, name=name, workspace=workspace)
        calls, parent = rl.history.planned_calls(checkpoint, after="fork"), rl.history.checkpoint(checkpoint).id
        roots = rl.sessions.get(checkpoint).workspace
    if as_json:
        planned = {"calls": msgspec.to_builtins(calls), "files_plan": msgspec.to_builtins(files)}
        console.document({"parent": parent, **planned})
        return 0
    entries = [Fact("files", fork_files(files, roots, now=workspace is not None))] if files is not None else []
    entries += call_facts(calls, "calls") or [Fact("calls", "none open")]
    named = f" named {name}" if name is not None else ""
    console.write([[f"a new session{named} from {parent}"], *facts(entries, console.out)])
    return 0
