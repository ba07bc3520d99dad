"""`relight pause` and `relight unpause`: end everything that runs unattended, and start nothing until told."""

from __future__ import annotations

import click
import msgspec

from relight.cli.app.context import CliContext, pass_context, user_name
from relight.cli.app.verb import json_flag, verb
from relight.cli.render.style import Span
from relight.text.format import count


@verb(
    "pause",
    ("pause", "end everything that runs, and start nothing"),
    ("pause --reason 'bill too high'", "shown wherever a start is refused"),
)
@click.option("--reason", metavar="TEXT", help="Why; shown when a start is refused.")
@json_flag
@pass_context
def pause(cli: CliContext, reason: str | None, as_json: bool) -> int:
    """Pause everything. Agents and programs that run under supervision or under a worker are ended within two seconds,
    on every machine that uses this store, and nothing is started until `relight unpause`, not after a reboot either.
    Every step is kept. Exit 4 if something still runs."""
    with cli.opened(create=True) as rl:
        made = rl.admin.pause(by=user_name(), reason=reason)
        ended, running = ([rl.sessions.get(one) for one in ids] for ids in (made.ended, made.running))
    if as_json:
        cli.console.document(msgspec.to_builtins(made))
        return 4 if running else 0
    cli.console.say(Span("✓ ", "ok"), "paused: nothing is started until ", Span("relight unpause", "bold"))
    for info in ended:
        cli.console.say(Span(info.title, "bold"), f"  ended; saved up to @{info.head}", indent=2)
    for info in running:
        why = "not started by relight: end it yourself" if info.command is None else "runs elsewhere, is ended there"
        cli.console.say(Span("! ", "warn"), Span(info.title, "bold"), f"  {why}", indent=2)
    cli.console.next(("end the pause", "relight unpause"))
    return 4 if running else 0


@verb("unpause", ("unpause", "workers claim sessions again"), ("resume --all", "then resume what ran without a worker"))
@json_flag
@pass_context
def unpause(cli: CliContext, as_json: bool) -> int:
    """End the pause. Workers claim sessions from their queues again; sessions that ran without a worker are resumed by
    `relight resume --all`."""
    with cli.opened() as rl:
        before = rl.admin.unpause()
        left = [one for one in rl.sessions.list(status="terminated") if (one.reason or "").startswith("paused")]
    if as_json:
        cli.console.document({"ended": msgspec.to_builtins(before), "paused": [one.id for one in left]})
        return 0
    if before is None:
        cli.console.say("nothing is paused")
        return 0
    cli.console.say(Span("✓ ", "ok"), f"the pause is over; {count(len(left), 'session')} to resume")
    if left:
        cli.console.next(("resume them", "relight resume --all"))
    return 0
