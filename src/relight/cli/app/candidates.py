"""What a reference that leads nowhere, or to several, could have meant: the sessions, as one would list them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from relight.cli.app.context import CliContext
from relight.cli.render.console import rendered
from relight.cli.render.status_word import status_word
from relight.cli.render.style import Part
from relight.cli.render.table import Column, table
from relight.errors import Ambiguous, NotFound, RelightError
from relight.text.format import age, place, seconds_between, short_id, where
from relight.values.info import SessionInfo

if TYPE_CHECKING:
    from relight.library.facade import Relight

_MAX: Final = 5
_LOOKED_AT: Final = 200
_COLUMNS: Final = [
    Column("id"),
    Column("name", least=12),
    Column("status"),
    Column("age", right=True, drop=2),
    Column("where", least=8, drop=1),
]


def with_candidates(error: RelightError, door: CliContext) -> RelightError:
    """The same error with sessions as its evidence. Never another error: a store that fails now adds nothing."""
    if not isinstance(error, Ambiguous) and not (isinstance(error, NotFound) and error.what == "session"):
        return error
    try:
        with door.opened() as rl:
            found = _meant(rl, error)
    except RelightError:
        return error
    if found:
        error.evidence = tuple(_lines(found, door))
        if isinstance(error, NotFound):
            error.hints = ("use the full name, or at least 4 letters of the id", *error.hints)
    return error


def _meant(rl: Relight, error: Ambiguous | NotFound) -> list[SessionInfo]:
    if isinstance(error, Ambiguous):
        return [info for one in error.candidates[: 2 * _MAX] if (info := rl.find(one)) is not None]
    word = error.ref.partition("@")[0]
    if not word.isascii() or not word.isprintable():
        return []
    holding = list(rl.sessions(search=word, limit=_MAX)) if word else []
    if holding:
        return holding
    from difflib import get_close_matches

    by_name = {info.name: info for info in rl.sessions(limit=_LOOKED_AT) if info.name}
    return [by_name[name] for name in get_close_matches(word, by_name, n=_MAX)]


def _lines(found: list[SessionInfo], door: CliContext) -> list[str]:
    now, look = door.now(), door.console.err
    ids = [info.id for info in found]
    rows: list[list[Part]] = [
        [
            short_id(info.id, ids),
            info.name or "-",
            status_word(info.status, unicode=look.unicode),
            age(seconds_between(info.last_step_at, now)),
            place(where(info)),
        ]
        for info in found
    ]
    narrow = look._replace(width=look.width - 2, color=False)
    return [rendered(line, narrow) for line in table(_COLUMNS, rows, narrow, header=False)]
