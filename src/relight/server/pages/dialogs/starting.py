"""Dialogs that begin a session: a new one, or the adoption of an agent's own session. Both need the scope admin."""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING, Final

from relight.server.pages.dialogs.values import Dialog, Field, Option
from relight.text import format as words

if TYPE_CHECKING:
    from relight.library.facade import Relight

_MAX_ADOPTABLE: Final = 50
_NOT_ADMIN: Final = "your token may not start programs: it needs the scope admin"


def new_dialog(rl: Relight, *, admin: bool) -> Dialog:
    """Start a coding agent with a prompt."""
    agents = rl.runs.agents()
    others = [Option(value=name, label=name) for name in agents]
    return Dialog(
        title="New session",
        confirm="Start",
        happens="Create a session and start the agent with this prompt, with the server's rights and environment.",
        kept="Other sessions. A start that fails leaves nothing behind.",
        back="Stop it at any time; remove the session.",
        command="relight run --detach -- AGENT -p PROMPT",
        path="/api/sessions",
        fields=[
            Field(kind="line", name="agent", label="Agent", value=agents[0], hint=", ".join(agents), required=True),
            Field(kind="text", name="prompt", label="Prompt", required=True),
            Field(kind="line", name="directory", label="Directory", value=os.getcwd(), required=True),
            Field(kind="line", name="name", label="Name (optional)"),
            Field(kind="boxes", name="fallback", label="Agents that continue after a usage limit", options=others),
        ],
        why_not="" if admin else _NOT_ADMIN,
        done="started",
        goes="/sessions/{id}",
    )


def adopt_dialog(rl: Relight, now: datetime, *, admin: bool) -> Dialog:
    """Take over a native session that was begun without relight."""
    found = rl.runs.adoptable(most=_MAX_ADOPTABLE) if admin else []
    options = [
        Option(
            value=one.native,
            label=f"{one.agent} in {words.display_path(one.directory)},"
            f" {words.age(words.seconds_between(one.touched_at, now))} ago ({one.native[:8]})",
        )
        for one in found
    ]
    return Dialog(
        title="Adopt a session",
        confirm="Adopt",
        happens="Import the conversation of an agent's own session. End the agent that has it open first.",
        kept="The agent's own file is not changed.",
        back="Remove the session; the agent's own one stays.",
        command="relight adopt NATIVE",
        path="/api/adopt",
        fields=[Field(kind="radio", name="native", label="Which?", options=options, required=True)] if options else [],
        why_not=("" if options else "there is none to adopt on this machine") if admin else _NOT_ADMIN,
        done="adopted",
        goes="/sessions/{id}",
    )
