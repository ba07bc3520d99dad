"""The status line at the bottom while a program runs: current call, last save, cost.

● @133 Edit 2 s | 2 h 14 m | saved 0.3 s ago | $0.92, $0.41/h | 1 restart
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from relight.text.format import count, duration, money, tokens

if TYPE_CHECKING:
    from relight.history.events import Event

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
