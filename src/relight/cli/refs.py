"""References on the command line: passed on as typed, completed by the shell, names first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from relight.cli.door import Door

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from relight.engine.library import Relight

_MOST: Final = 100


class RefType(click.ParamType[str]):
    """Text for the parser, sessions for the shell; after an `@` the labels of that session."""

    name = "ref"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """What could stand here."""
        return completions(ctx.find_object(Door) or Door(), incomplete)


def completions(door: Door, incomplete: str) -> list[CompletionItem]:
    """Sessions, or the labels of one. Never an error: a shell that completes is no place to read one."""
    from relight.errors import RelightError

    try:
        with door.opened() as rl:
            return _labels(rl, incomplete) if "@" in incomplete else _sessions(rl, incomplete)
    except RelightError:
        return []


def _sessions(rl: Relight, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    found = [info for info in rl.sessions(limit=_MOST) if info.status != "archived"]
    named = [(info.name, info) for info in found if info.name and info.name.startswith(incomplete)]
    by_id = [(info.id[:8], info) for info in found if info.id.startswith(incomplete) and (incomplete or not info.name)]
    return [CompletionItem(word, help=info.status) for word, info in named + by_id]


def _labels(rl: Relight, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    session, _, label = incomplete.partition("@")
    labels = {one.label: one for one in rl.checkpoints(session) if one.label and one.label.startswith(label)}
    return [CompletionItem(f"{session}@{one.label}", help=f"@{one.seq}") for one in labels.values()]
