"""Following the journal from another process, and each step as a line.

What is shown is what is durable: a line appears because the step is in the store, not because the agent said so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relight.demo.screen import Screen
from relight.demo.stage import Player, wait_until
from relight.history.events import Event
from relight.library.facade import Relight


class Follower:
    """Reads a session's steps as they are committed, and shows them."""

    def __init__(self, rl: Relight, session: str, screen: Screen) -> None:
        self._rl = rl
        self._session = session
        self._screen = screen
        self._calls: dict[str, str] = {}
        self.events: list[Event] = []
        """every step seen, oldest first"""

    @property
    def seq(self) -> int:
        """The newest step seen."""
        return self.events[-1].seq if self.events else 0

    def until(self, true: Callable[[], bool], player: Player, what: str) -> None:
        """Show steps until something is true; then those that were committed until then."""

        def look() -> bool:
            over = true()
            self.look()
            return over

        wait_until(look, player, what)

    def look(self) -> None:
        """Show what is new."""
        if self._rl.find(self._session) is None:
            return
        for event in self._rl.tail(self._session, after=self.seq):
            self.events.append(event)
            self._show(event)

    def in_order(self) -> bool:
        """Are the steps seen so far 1, 2, 3 and so on?"""
        return [event.seq for event in self.events] == list(range(1, len(self.events) + 1))

    def _show(self, event: Event) -> None:
        for message in event.messages:
            self._show_message(event.seq, message)
        for intent in event.intents:
            if intent["effect"] == "once":
                self._screen.step(event.seq, "tool", f"{self._calls[intent['id']]} (once)", "…", "on its way")
        for outcome in event.outcomes:
            self._show_outcome(event.seq, outcome)

    def _show_message(self, seq: int, message: dict[str, Any]) -> None:
        content = message["content"]
        if isinstance(content, str):
            self._screen.step(seq, "prompt", f'"{content}"')
            return
        for block in content:
            if block["type"] == "text":
                self._screen.step(seq, "model", f'"{block["text"]}"')
            elif block["type"] == "tool_use":
                self._calls[block["id"]] = _call(block["name"], block["input"])

    def _show_outcome(self, seq: int, outcome: dict[str, Any]) -> None:
        call = self._calls[outcome["id"]]
        if outcome["status"] == "unknown":
            self._screen.step(seq, "tool", f"{call} not run again", "…", "outcome unknown")
            return
        mark = "✓" if outcome["status"] == "ok" else "✗"
        self._screen.step(seq, "tool", call, mark, _result(call, str(outcome["content"])))


def _call(name: str, arguments: dict[str, Any]) -> str:
    what = arguments.get("path") or (f'"{arguments["subject"]}"' if "subject" in arguments else "")
    return f"{name} {what}".rstrip()


def _result(call: str, text: str) -> str:
    """A result in a few words: of a file its length, of anything else what it says, without the name twice."""
    lines = text.splitlines()
    if len(lines) > 1:
        return f"{len(lines)} lines"
    return text.removeprefix(call.rpartition(" ")[2]).strip()
