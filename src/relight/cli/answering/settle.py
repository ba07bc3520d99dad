"""`relight settle`: decide a tool call of which nobody knows whether it took effect."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import click

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.render.outcome import print_checkpoint
from relight.errors import NotFound, UsageError
from relight.history.documents import call_document

if TYPE_CHECKING:
    from relight.library.facade import Relight


@verb(
    "settle",
    ('settle fix-login call_7 --result "mail was sent"', "it did take effect"),
    ("settle fix-login call_7 --retry", "it did not: let it run again"),
    ("settle fix-login call_7", "shows the call, decides nothing"),
)
@ref_argument()
@click.argument("call")
@click.option("--result", metavar="TEXT", help="What the tool is taken to have returned.")
@click.option("--retry", is_flag=True, help="It may run again, under the next generation of its key (KEY/2).")
@json_flag
@pass_context
def settle(cli: CliContext, ref: str, call: str, result: str | None, retry: bool, as_json: bool) -> int:
    """Decide CALL of session REF, which started and is not known to have ended. Without an option: show the call."""
    if retry and result is not None:
        raise UsageError("say either --result TEXT or --retry", hints=[f"see the calls: relight can-resume {ref}"])
    with cli.opened() as rl:
        if not retry and result is None:
            return _show(cli, rl, ref, call, as_json=as_json)
        made = rl.settle(ref, call, result=result, retry=retry)
        name = rl.get(ref).title
    done = f"{call} may run again" if retry else f"{call} has its result"
    return print_checkpoint(cli, made, name, done, ("go on", f"relight resume {name}"), as_json=as_json)


def _show(cli: CliContext, rl: Relight, ref: str, wanted: str, *, as_json: bool) -> int:
    """What is known of the call, and how it is decided. Changes nothing."""
    calls = rl.load(ref).calls
    call = next((one for one in calls if one.id == wanted and one.in_doubt), None)
    if call is None:
        doubts = ", ".join(one.id for one in calls if one.in_doubt)
        hints = [f"in doubt are: {doubts}"] if doubts else ["no call of it is in doubt"]
        raise NotFound(wanted, what="call in doubt", hints=hints)
    if as_json:
        cli.console.document(call_document(call))
        return 0
    arguments = json.dumps(call.arguments, ensure_ascii=False, default=str)
    started = f"{call.started_at.astimezone():%Y-%m-%d %H:%M:%S}" if call.started_at is not None else "?"
    lines = [f"{call.name}  {arguments}", f"began at @{call.intent_seq}, {started}; not known to have ended"]
    cli.console.write([[line] for line in lines]) if cli.console.out.terminal else cli.console.row(tuple(lines))
    name = rl.get(ref).title
    cli.console.next(
        ("it took effect", shlex.join(["relight", "settle", name, wanted, "--result", "TEXT"])),
        ("it did not", shlex.join(["relight", "settle", name, wanted, "--retry"])),
    )
    return 0
