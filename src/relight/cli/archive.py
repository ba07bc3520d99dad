"""`relight archive`: finished for good. Kept to read, never resumed."""

from __future__ import annotations

from relight.cli.door import Door, pass_door
from relight.cli.outcome import tell_checkpoint
from relight.cli.verb import json_flag, ref_argument, verb


@verb("archive", ("archive fix-login", "hide it from the list, for good"), ("list --all", "archived ones too"))
@ref_argument()
@json_flag
@pass_door
def archive(door: Door, ref: str, as_json: bool) -> int:
    """Archive a session that has ended. It cannot be resumed any more, only forked."""
    with door.opened() as rl:
        name = rl.get(ref).title
        made = rl.archive(ref)
        session = made.session[:12]
    then = ("a copy that goes on", f"relight fork {session}")
    return tell_checkpoint(door, made, name, "archived; not restorable", then, as_json=as_json)
