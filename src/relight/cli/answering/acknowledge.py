"""`relight acknowledge`: a session leaves *Needs you* until something new happens, or until a time."""

from __future__ import annotations

import click

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.render.style import Span
from relight.errors import UsageError
from relight.journal.retention import retention_days
from relight.values.checkpoint import at


@verb(
    "acknowledge",
    ("acknowledge nightly-docs", "until something new happens"),
    ("acknowledge nightly-docs --for 8h", "and ask again then"),
)
@ref_argument()
@click.option("--for", "period", metavar="TIME", help="Only for this long: 30m, 8h, 2d.")
@click.option("--off", is_flag=True, help="Withdraw it.")
@json_flag
@pass_context
def acknowledge(cli: CliContext, ref: str, period: str | None, off: bool, as_json: bool) -> int:
    """Acknowledge why a session needs you. It is not changed; a new reason is shown again at once."""
    seconds: float | None = None
    if period is not None:
        try:
            days = retention_days(period)
        except ValueError:
            days = None
        if days is None:
            raise UsageError(f"not a time: {period[:50]!r}", hints=["write 30m, 8h, 2d or 1w"])
        seconds = days * 86_400
    with cli.opened() as rl:
        info = rl.sessions.get(ref)
        made = None if off else rl.sessions.acknowledge(ref, seconds=seconds)
        if off:
            rl.sessions.remind(ref)
    until = at(made.until_us).isoformat() if made is not None and made.until_us is not None else None
    if as_json:
        cli.console.document({"session": info.id, "acknowledged": made is not None, "until": until})
        return 0
    text = f"{info.title} needs you again" if made is None else f"{info.title} is acknowledged until "
    cli.console.write([[Span("✓ ", "ok"), text + ("" if made is None else until or "something new happens")]])
    return 0
