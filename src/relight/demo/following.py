"""Follows the journal from another process and prints each step as a line.

A line is printed because the step is in the store, so everything on the screen is durable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relight.demo.screen import Screen
from relight.demo.stage import Player, wait_until
from relight.history.events import Event
from relight.library.facade import Relight


class Follower:
    """Polls a session's steps and prints them."""

    def __init__(self, rl: Relight, session: str, screen: Screen) -> None:
        self._rl = rl
        self._session = session
        self._screen = screen
        self._calls: dict[str, str] = {}
        self.events: list[Event] = []
        """every step seen, oldest first"""

    @property
    def seq(self) -> int:
        """Seq of the newest step that was read, 0 for none."""
        return self.events[-1].seq if self.events else 0

    def until(self, true: Callable[[], bool], player: Player, what: str) -> None:
        """Print steps until a condition holds, including those committed before it did."""

        def poll() -> bool:
            # In this order: a step that was committed before the condition held is printed before the wait ends.
            over = true()
            self.poll()
            return over

        wait_until(poll, player, what)

    def poll(self) -> None:
        """Print the steps that are new since the last call."""
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
    """A short form of a result: the number of lines of a file, else its text without the path."""
    lines = text.splitlines()
    if len(lines) > 1:
        return f"{len(lines)} lines"
    return text.removeprefix(call.rpartition(" ")[2]).strip()
