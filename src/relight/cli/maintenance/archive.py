"""`relight archive`: close a session for good; it can be read and forked, not resumed."""

from __future__ import annotations

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.render.outcome import print_checkpoint


@verb("archive", ("archive fix-login", "hide it from the list"), ("list --all", "archived ones too"))
@ref_argument()
@json_flag
@pass_context
def archive(cli: CliContext, ref: str, as_json: bool) -> int:
    """Archive a session that has ended. It cannot be resumed after that, only forked."""
    with cli.opened() as rl:
        name = rl.sessions.get(ref).title
        made = rl.sessions.archive(ref)
        session = made.session[:12]
    then = ("continue in a fork", f"relight fork {session}")
    return print_checkpoint(cli, made, name, "archived; it cannot be resumed", then, as_json=as_json)
