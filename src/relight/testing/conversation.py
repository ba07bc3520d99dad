"""What a strict provider would refuse about a conversation: calls and results, their pairing, order, grouping, ids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from relight.journal.formats.format import CallSite, Format, ProviderDict
from relight.journal.formats.registry import detect

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def lint(messages: Sequence[ProviderDict], format: Format | None = None) -> list[str]:
    """What a strict provider would refuse about calls and results: pairing, order, grouping, ids."""
    return _Lint(format or detect(messages)).check(messages)


class _Lint:
    """A strict reader that expects each result at its only right place and says what it finds instead."""

    def __init__(self, format: Format) -> None:
        self._format = format
        self._found: list[str] = []
        self._asked: set[str] = set()
        self._answered: set[str] = set()
        self._awaited: list[str] = []
        """ids of the reply at hand that have no result yet, in call order"""
        self._asking = False
        """may the reply at hand still grow?"""
        self._gap = False
        """did something come between the last call and its results?"""

    def check(self, messages: Sequence[ProviderDict]) -> list[str]:
        if messages and self._format.opens_with_user and messages[0].get("role") != "user":
            self._found.append("message 0: the first message is not the user's")
        for index, message in enumerate(messages):
            self._found.extend(f"message {index}: {fault}" for fault in self._format.faults(message))
            if sites := self._format.calls(message):
                self._ask(index, sites)
            elif answers := self._format.answers(message):
                self._answer(index, answers)
            elif self._asking and self._format.spans and self._format.is_assistant(message):
                self._gap = True
            else:
                self._close(index)
        self._close(len(messages))
        return self._found

    def _ask(self, index: int, sites: tuple[CallSite, ...]) -> None:
        if not (self._asking and self._format.spans):
            self._close(index)
        self._asking, self._gap = True, False
        for site in sites:
            if not _ID.fullmatch(site.id):
                self._found.append(f"message {index}: malformed id {site.id!r}")
            if site.id in self._asked:
                self._found.append(f"message {index}: id {site.id!r} is not unique")
            self._asked.add(site.id)
            self._awaited.append(site.id)

    def _answer(self, index: int, answers: tuple[str, ...]) -> None:
        self._asking = False
        for call in answers:
            if call in self._awaited:
                self._take(index, call)
            elif call in self._answered:
                self._found.append(f"message {index}: second result for {call!r}")
            elif call in self._asked:
                self._found.append(f"message {index}: late result for {call!r}")
            else:
                self._found.append(f"message {index}: result without a call {call!r}")
        if self._format.shares:
            self._close(index + 1)

    def _take(self, index: int, call: str) -> None:
        if self._gap:
            self._found.append(f"message {index}: result for {call!r} is not directly after its reply")
        if self._awaited[0] != call:
            self._found.append(f"message {index}: result for {call!r} is out of call order")
        self._awaited.remove(call)
        self._answered.add(call)

    def _close(self, index: int) -> None:
        """Nothing that comes now can answer the reply at hand."""
        self._found.extend(f"message {index}: no result yet for {call!r}" for call in self._awaited)
        self._awaited, self._asking, self._gap = [], False, False
