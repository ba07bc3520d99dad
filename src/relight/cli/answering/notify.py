"""`relight notify`: send a message to a phone or a webhook when a session needs a person."""

from __future__ import annotations

import time
from typing import Final

import click
import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, verb
from relight.cli.render.style import Span
from relight.text.safe import one_line

_POLL_SECONDS: Final = 1.0
_QUIET_SECONDS: Final = 15.0
"""at most so long between two looks: a session becomes quiet or lost without a commit"""


@verb(
    "notify",
    ("notify ntfy:my-secret-topic", "to your phone, with the ntfy app; runs until Ctrl-C"),
    ("notify https://hooks.example/relight --once", "what is new since the last time, then ends: for cron"),
    ("notify push --link https://relight.example", "to browsers that have subscribed on a page"),
    ("notify ntfy:https://ntfy.example/agents --link https://relight.example", "with a link to the page"),
)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option("--link", metavar="URL", help="Where your dashboard is: messages link to the session.")
@click.option("--once", is_flag=True, help="Send what is new, and end.")
@click.option("--test", "is_test", is_flag=True, help="Send a test message, and end.")
@json_flag
@pass_context
def notify(
    cli: CliContext, targets: tuple[str, ...], link: str | None, once: bool, is_test: bool, as_json: bool
) -> int:
    """Notify a person when a session needs one.

    That is when it asks, waits for an approval, fails, halts or gets stuck.

    TARGET is `ntfy:TOPIC`, `ntfy:https://SERVER/TOPIC`, `push` for browsers in which "notify me" was pressed on a
    page, or the address of a webhook. Each cause is sent once, also over
    restarts; an address that does not answer is tried again. Exit 1 with --once or --test if one did not answer."""
    from relight.notifications.notify import notify as send_new

    looked, token, failing = 0.0, object(), False
    with cli.opened() as rl:
        while True:
            now = rl.store.changed()
            if failing or now != token or time.monotonic() - looked > _QUIET_SECONDS:
                looked, token = time.monotonic(), now
                done = send_new(rl, targets, link=link, test=is_test)
                for one in done.sent:
                    if as_json:
                        cli.console.document(msgspec.to_builtins(one))
                    else:
                        cli.console.say(Span("✓ ", "ok"), Span(one.title, "bold"), f"  {one_line(one.text)}")
                for why in done.failed if not failing else ():
                    cli.console.say(Span("! ", "warn"), f"not sent: {why}")
                failing = bool(done.failed)
            if once or is_test:
                return 1 if failing else 0
            time.sleep(_POLL_SECONDS)
