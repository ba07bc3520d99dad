"""Milestones of a running program on stderr: deaths, restarts, failures, waits, labels.

On a terminal a status line stays at the bottom, except while the program itself uses the terminal. Without one a
progress line is printed every five minutes, and no line twice in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from relight.cli.app.context import CliContext
from relight.cli.render.cells import cut
from relight.cli.render.console import Console
from relight.cli.render.steps import finished
from relight.cli.render.style import Span
from relight.history.narration import Narrator, Row
from relight.ports.runtime import Child, Exit
from relight.text.format import count, duration, money, tokens
from relight.text.safe import one_line
from relight.values.info import SessionInfo

if TYPE_CHECKING:
    from relight.history.events import Event
    from relight.library.loaded import Loaded


Level = Literal["quiet", "normal", "verbose"]
PROGRESS_SECONDS: Final = 300
DRAW_SECONDS: Final = 1.0
_STAMP: Final = 12


class Milestones:
    """Implements `supervision.watcher.Watcher`; prints to stderr."""

    def __init__(
        self,
        cli: CliContext,
        info: SessionInfo,
        *,
        level: Level,
        resumed: bool,
        load: Callable[[], Loaded] | None = None,
    ) -> None:
        """`load`: the session, asked for what was begun before this."""
        self._cli, self._level = cli, level
        self._agent = info.agent or "the program"
        self._narrator = Narrator(info.provider, load)
        self._resumed = resumed
        self._silent = False
        self._attempt, self._head = info.attempt, info.head
        self._began: datetime | None = None
        self._died: datetime | None = None
        self._replied = not resumed
        self._progress_at = cli.now()
        self._turns = self._calls = 0
        self._last = ""
        self._status_line = StatusLine(cli.now(), info.head)
        self._drawn_at = cli.now()

    @property
    def _console(self) -> Console:
        return self._cli.console

    def started(self, pid: int, orphans: Sequence[int]) -> None:
        self._began = self._cli.now()
        self._attempt += 1
        if orphans:
            ended = ", ".join(map(str, orphans))
            self._line("", f"ended {count(len(orphans), 'process', 'processes')} of the dead attempt (pid {ended})")
        if self._died is not None:
            self._status_line.restarts += 1
            lost = duration((self._began - self._died).total_seconds())
            self._line("", f"{self._agent} runs again from @{self._head}, {lost} lost, nothing repeated", always=True)
        elif self._resumed:
            self._console.say(Span("✓", "ok"), f" attempt {self._attempt} runs   pid {pid}")

    def step(self, event: Event) -> None:
        self._head = event.seq
        self._status_line.feed(event)
        for row in finished(self._narrator.rows(event)):
            self._turns += row.word == "model"
            self._calls += row.word == "tool"
            self._report(row)

    def _report(self, row: Row) -> None:
        if row.word == "model" and not self._replied:
            self._replied = True
            took = duration((row.at - self._began).total_seconds()) if self._began is not None else "?"
            self._console.say(Span("✓", "ok"), f" first reply after {took}: progressed (@{row.seq})")
        if row.rule:
            return
        asks = row.word == "status" and row.mark == "?"
        if asks and self._console.err.terminal:
            self._console.bell()
        if asks or self._level == "verbose" or (row.notable and row.word != "status"):
            text = f"{row.line} {row.mark}".rstrip()
            self._line(f"@{row.seq}", f"{text}{f'  {row.detail[0]}' if row.detail else ''}")

    def died(self, exit: Exit, again_in_seconds: float | None) -> None:
        self._died = self._cli.now()
        if again_in_seconds is not None:
            self._silent = False
            self._line("", f"{self._agent} died ({exit}); restarting in {duration(again_in_seconds)}", always=True)

    def tick(self, child: Child) -> None:
        """Called many times a second: update the status line or print progress when due."""
        # While the program owns the terminal (an editor, a full-screen agent) a line of ours would corrupt its screen.
        self._silent = child.holds_terminal
        if self._level == "quiet":
            return
        now = self._cli.now()
        if self._console.err.terminal:
            self._draw(now)
            return
        if (now - self._progress_at).total_seconds() < PROGRESS_SECONDS:
            return
        since, self._progress_at = self._progress_at, now
        counts = f"{count(self._turns, 'turn')}, {count(self._calls, 'call')} since {since.astimezone():%H:%M}"
        moved = self._turns or self._calls
        self._line(
            "", f"progress: {counts}; at @{self._head}; saved" if moved else f"quiet: no step since @{self._head}"
        )
        self._turns = self._calls = 0

    def _draw(self, now: datetime) -> None:
        """Redraw the status line, at most once a second."""
        if self._silent:
            return
        if (now - self._drawn_at).total_seconds() >= DRAW_SECONDS:
            self._drawn_at = now
            self._console.status(self._status_line.text(now))

    def _line(self, seq: str, text: str, *, always: bool = False) -> None:
        if self._silent or (self._level == "quiet" and not always) or text == self._last:
            return
        self._last = text
        style = self._console.err
        stamp = f"{self._cli.now().astimezone():%H:%M}  {seq:<6}"
        room = style.width - _STAMP - 1
        self._console.lines([[Span(stamp, "dim"), cut(one_line(text), room, ellipsis=style.ellipsis)]])


_HOUR: Final = 3600.0
_RATE_AFTER_SECONDS: Final = 60.0
_TOKENS: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class StatusLine:
    """Computes the line from the events of one session."""

    def __init__(self, now: datetime, seq: int) -> None:
        self._began = now
        self._seq = seq
        self._saved: datetime | None = None
        self._doing: dict[str, tuple[str, datetime]] = {}
        self._cost: float | None = None
        self._tokens = 0
        self.restarts = 0

    def feed(self, event: Event) -> None:
        self._seq, self._saved = event.seq, event.at
        # Calls of a former attempt cannot be running any more, whatever became of them.
        if event.started is not None:
            self._doing.clear()
        for intent in event.intents:
            self._doing[intent["id"]] = (intent["name"], event.at)
        for outcome in event.outcomes:
            self._doing.pop(outcome["id"], None)
        if event.kind == "message" and not event.intents:
            self._doing.clear()  # the model replied, so no call runs any more
        if event.usage is not None:
            self._count(event.usage)

    def _count(self, usage: Mapping[str, Any]) -> None:
        self._tokens += sum(int(usage.get(name) or 0) for name in _TOKENS)
        if usage.get("cost") is not None:
            self._cost = (self._cost or 0.0) + float(usage["cost"])

    def text(self, now: datetime) -> str:
        parts = [f"● @{self._seq} {self._what(now)}".rstrip(), duration((now - self._began).total_seconds())]
        parts.append(
            f"saved {duration(max(0.0, (now - self._saved).total_seconds()))} ago" if self._saved else "starts"
        )
        if (spent := self._spent(now)) is not None:
            parts.append(spent)
        if self.restarts:
            parts.append(count(self.restarts, "restart"))
        return " | ".join(parts)

    def _what(self, now: datetime) -> str:
        if not self._doing:
            return ""
        tool, since = next(iter(self._doing.values()))
        more = f" +{len(self._doing) - 1}" if len(self._doing) > 1 else ""
        return f"{tool}{more} {duration(max(0.0, (now - since).total_seconds()))}"

    def _spent(self, now: datetime) -> str | None:
        if self._cost is None:
            return f"{tokens(self._tokens)} tokens" if self._tokens else None
        seconds = (now - self._began).total_seconds()
        rate = f", {money(self._cost / seconds * _HOUR)}/h" if seconds > _RATE_AFTER_SECONDS else ""
        return f"{money(self._cost)}{rate}"
