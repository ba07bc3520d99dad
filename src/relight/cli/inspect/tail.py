"""`relight tail`: print the steps of a session; with -f as they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

import click
import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import ref_argument, verb
from relight.cli.render.console import Console
from relight.cli.render.steps import fields_of, finished, lines_of, open_rows
from relight.cli.render.style import Span
from relight.errors import UsageError
from relight.history.narration import Narrator, Row
from relight.text.format import count
from relight.text.safe import one_line
from relight.values.info import SessionInfo
from relight.values.status import headline

if TYPE_CHECKING:
    from relight.history.events import Event
    from relight.library.facade import Relight
    from relight.library.loaded import Loaded

DEFAULT_ROWS: Final = 20
_EVENTS_A_ROW: Final = 3
_EXIT_CODES: Final = {"failed": 1, "halted": 1, "terminated": 1}


@verb(
    "tail",
    ("tail fix-login", "its last 20 rows"),
    ("tail fix-login -f --json", "one event per line, live"),
)
@ref_argument()
@click.option("-f", "--follow", is_flag=True, help="Follow until the session ends; the exit code says how.")
@click.option("-n", "rows", type=click.IntRange(min=0), default=DEFAULT_ROWS, metavar="N", help="Begin with N rows.")
@click.option(
    "--after", type=click.IntRange(min=0), metavar="SEQ", help="Begin after this seq: every step, no duplicate."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON event per line.")
@pass_context
def tail(cli: CliContext, ref: str, follow: bool, rows: int, after: int | None, as_json: bool) -> int:
    """Print the steps of a session, oldest first."""
    with cli.opened() as rl:
        info = rl.sessions.get(ref)
        upto = rl.history.checkpoint(ref).seq if "@" in ref else info.seq
        if follow and upto < info.seq:
            raise UsageError("-f follows a session to its end", hints=[f"leave out the checkpoint: {info.title}"])
        printer = _TailPrinter(cli.console, info, partial(rl.history.load, ref), as_json=as_json)
        seen = printer.begin(rl, rows=rows, after=after, upto=upto)
        if not follow:
            return 0
        for event in rl.history.events(info.id, after=seen, follow=True):
            printer.live(event)
        return printer.end(rl.sessions.get(info.id))


class _TailPrinter:
    """Prints rows or JSON events of one session."""

    def __init__(self, console: Console, info: SessionInfo, load: Callable[[], Loaded], *, as_json: bool) -> None:
        self._console, self._info, self._as_json = console, info, as_json
        self._narrator = Narrator(info.provider, load)
        self._width = len(str(info.seq)) + 1

    def begin(self, rl: Relight, *, rows: int, after: int | None, upto: int) -> int:
        """Print the steps there are, up to this one; returns the seq of the last one."""
        # A row takes up to three events (request, intent, outcome), so the last `rows` rows are within three times as
        # many steps; reading from the start would load a long journal for twenty rows.
        start = after if after is not None else max(0, upto - rows * _EVENTS_A_ROW)
        if self._as_json:
            return self._begin_events(rl, start if after is not None else max(0, upto - rows), upto)
        rows_read, seen = self._rows(rl.history.events(self._info.id, after=start, upto=upto), start)
        rows_read += open_rows(self._narrator, seen, doubtful=self._info.in_doubt > 0)
        printed = rows_read if after is not None else rows_read[-rows:] if rows else []
        for row in printed:
            self._row(row)
        hidden = printed[0].seq - 1 if printed and after is None else 0
        if hidden > 0 and self._console.hints:
            self._console.say(
                Span(
                    f"{count(len(printed), 'row')} shown; earlier steps: relight tail {self._info.title} -n 100", "dim"
                )
            )
        return seen

    def _begin_events(self, rl: Relight, start: int, upto: int) -> int:
        seen = start
        for event in rl.history.events(self._info.id, after=start, upto=upto):
            seen = event.seq
            self._event(event)
        return seen

    def _rows(self, events: Iterator[Event], seen: int) -> tuple[list[Row], int]:
        rows: list[Row] = []
        for event in events:
            seen = event.seq
            rows += finished(self._narrator.rows(event))
        return rows, seen

    def live(self, event: Event) -> None:
        """Print a new step; while following, a call gets a row when it begins, too."""
        if self._as_json:
            self._event(event)
            return
        for row in self._narrator.rows(event):
            self._row(row)

    def end(self, info: SessionInfo) -> int:
        """Print how the session ended; returns the exit code."""
        if not self._as_json and self._console.hints:
            why = f": {one_line(headline(info.reason))}" if info.reason else ""
            self._console.say(Span(f"{info.title} {info.status}{why}", "dim"))
        return _EXIT_CODES.get(info.status, 0)

    def _event(self, event: Event) -> None:
        self._console.document(msgspec.to_builtins(event), indent=None)

    def _row(self, row: Row) -> None:
        style = self._console.out
        if style.table:
            self._console.write(lines_of(row, style, seq_width=self._width))
        elif style.plain:
            text = " ".join(filter(None, (f"@{row.seq}", row.word, row.line, row.mark, *row.detail[:2])))
            self._console.write([[text]])
        else:
            self._console.row(fields_of(row))
        self._console.flush()
