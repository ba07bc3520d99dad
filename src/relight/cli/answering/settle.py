"""`relight settle`: decide a tool call in doubt."""

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
    ("settle fix-login call_7", "shows the call, changes nothing"),
)
@ref_argument()
@click.argument("call")
@click.option("--result", metavar="TEXT", help="Record this as the tool's result.")
@click.option("--retry", is_flag=True, help="Let it run again, under the next generation of its key (KEY/2).")
@json_flag
@pass_context
def settle(cli: CliContext, ref: str, call: str, result: str | None, retry: bool, as_json: bool) -> int:
    """Decide CALL of session REF, whose outcome is unknown. Without an option: show the call."""
    if retry and result is not None:
        raise UsageError("pass either --result TEXT or --retry", hints=[f"list the calls: relight can-resume {ref}"])
    with cli.opened() as rl:
        if not retry and result is None:
            return _show(cli, rl, ref, call, as_json=as_json)
        made = rl.runs.settle(ref, call, result=result, retry=retry)
        name = rl.sessions.get(ref).title
    done = f"{call} may run again" if retry else f"{call} has its result"
    return print_checkpoint(cli, made, name, done, ("continue", f"relight resume {name}"), as_json=as_json)


def _show(cli: CliContext, rl: Relight, ref: str, wanted: str, *, as_json: bool) -> int:
    """Print the call and the two ways to settle it; changes nothing."""
    # By id among the calls in doubt only: a provider may have used the same id for a call that ended.
    calls = rl.history.load(ref).calls
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
    lines = [f"{call.name}  {arguments}", f"started at @{call.intent_seq}, {started}; outcome unknown"]
    cli.console.write([[line] for line in lines]) if cli.console.out.terminal else cli.console.row(tuple(lines))
    name = rl.sessions.get(ref).title
    cli.console.next(
        ("it took effect", shlex.join(["relight", "settle", name, wanted, "--result", "TEXT"])),
        ("it did not", shlex.join(["relight", "settle", name, wanted, "--retry"])),
    )
    return 0
