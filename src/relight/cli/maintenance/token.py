"""`relight token`: API tokens of the server. A token is printed once, when it is created."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, verb
from relight.errors import UsageError

if TYPE_CHECKING:
    from relight.server.tokens import Scope, Tokens


@verb(
    "token",
    ("token add ci --scope operate", "prints it once"),
    ("token list", "names and scopes, never values"),
    ("token revoke ci", "takes effect immediately, for open streams too"),
)
@click.argument("action", type=click.Choice(["add", "list", "revoke"]))
@click.argument("name", required=False)
@click.option(
    "--scope",
    type=click.Choice(["read", "operate", "admin"]),
    default="read",
    show_default=True,
    help="read: view; operate: resume, fork, rewind, stop; admin: also start, clear, remove.",
)
@json_flag
@pass_context
def token(
    cli: CliContext, action: Literal["add", "list", "revoke"], name: str | None, scope: Scope, as_json: bool
) -> int:
    """Add, list and revoke API tokens of the server."""
    if (action == "list") != (name is None):
        raise UsageError("add and revoke need a name", hints=["relight token add NAME --scope operate"])
    tokens = tokens_in(directory_of(cli, create=True))
    console = cli.console
    if name is None:
        listed = tokens.listed()
        if as_json:
            console.document([msgspec.to_builtins(one) for one in listed])
            return 0
        for one in listed:
            revoked = f"revoked {one.revoked_at:%Y-%m-%d}" if one.revoked_at is not None else ""
            console.row((one.name, one.scope, f"{one.created_at:%Y-%m-%d}", revoked))
        if not listed:
            console.say("no API tokens yet; the server's own is in a file beside the store")
    elif action == "add":
        value = tokens.add(name, scope)
        console.document({"name": name, "scope": scope, "token": value}) if as_json else console.row((value,))
        console.say("store it now: it is not shown again")
    else:
        tokens.revoke(name)
        console.document({"revoked": name}) if as_json else console.row((name, "revoked"))
    return 0


def directory_of(cli: CliContext, *, create: bool) -> Path:
    """Directory of the server's own files; `create`: create the store if it does not exist."""
    from relight import wiring
    from relight.system.machine import SystemClock

    store = wiring.open_store(cli.store, SystemClock(), create=create)
    try:
        return wiring.server_directory(store)
    finally:
        store.close()


def tokens_in(directory: Path) -> Tokens:
    """The tokens in a server directory."""
    from relight.server.state import ServerState
    from relight.server.tokens import Tokens
    from relight.system.machine import SystemClock

    return Tokens(ServerState(directory), SystemClock())
