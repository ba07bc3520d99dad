"""Sessions that an unknown or ambiguous reference could have meant, as evidence of the error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from relight.cli.app.context import CliContext
from relight.cli.render.console import rendered
from relight.cli.render.style import Part, status_word
from relight.cli.render.table import Column, table
from relight.errors import Ambiguous, NotFound, RelightError
from relight.text.format import age, display_path, seconds_between, short_id, working_directory
from relight.values.info import SessionInfo

if TYPE_CHECKING:
    from relight.library.facade import Relight

_MAX: Final = 5
_MAX_SCANNED: Final = 200
_COLUMNS: Final = [
    Column("id"),
    Column("name", least=12),
    Column("status"),
    Column("age", right=True, drop=2),
    Column("where", least=8, drop=1),
]


def with_candidates(error: RelightError, cli: CliContext) -> RelightError:
    """Add matching sessions to the error. A store that fails now adds nothing: the first error is the one to report."""
    if not isinstance(error, Ambiguous) and not (isinstance(error, NotFound) and error.what == "session"):
        return error
    try:
        with cli.opened() as rl:
            found = _candidates(rl, error)
    except RelightError:
        return error
    if found:
        error.evidence = tuple(_lines(found, cli))
        if isinstance(error, NotFound):
            error.hints = ("use the full name, or at least 4 letters of the id", *error.hints)
    return error


def _candidates(rl: Relight, error: Ambiguous | NotFound) -> list[SessionInfo]:
    if isinstance(error, Ambiguous):
        return [info for one in error.candidates[: 2 * _MAX] if (info := rl.sessions.find(one)) is not None]
    word = error.ref.partition("@")[0]
    if not word.isascii() or not word.isprintable():
        return []
    holding = list(rl.sessions.list(search=word, limit=_MAX)) if word else []
    if holding:
        return holding
    # A misspelt name is compared with recent sessions only: the store cannot search by similarity.
    from difflib import get_close_matches

    by_name = {info.name: info for info in rl.sessions.list(limit=_MAX_SCANNED) if info.name}
    return [by_name[name] for name in get_close_matches(word, by_name, n=_MAX)]


def _lines(found: list[SessionInfo], cli: CliContext) -> list[str]:
    now, style = cli.now(), cli.console.err
    ids = [info.id for info in found]
    rows: list[list[Part]] = [
        [
            short_id(info.id, ids),
            info.name or "-",
            status_word(info.status, unicode=style.unicode),
            age(seconds_between(info.last_step_at, now)),
            display_path(working_directory(info)),
        ]
        for info in found
    ]
    narrow = style._replace(width=style.width - 2, color=False)
    return [rendered(line, narrow) for line in table(_COLUMNS, rows, narrow, header=False)]
