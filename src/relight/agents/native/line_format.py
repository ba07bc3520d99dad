"""What the formats of agents have in common whose lines never hold more than one result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from relight.journal.formats.format import Format, ProviderDict, ToolResult


class LineFormat(ABC):
    """Base of a `Format` in which each result is a line of its own."""

    native = True
    shares = False
    opens_with_user = False

    @abstractmethod
    def answers(self, message: ProviderDict) -> tuple[str, ...]:
        """As `Format.answers`."""

    @abstractmethod
    def fragment(self, result: ToolResult) -> ProviderDict:
        """As `Format.fragment`: the whole line."""

    def split(self, message: ProviderDict) -> tuple[list[tuple[str, ProviderDict]], ProviderDict | None]:
        answered = self.answers(message)
        return ([(name, message) for name in answered], None) if answered else ([], message)

    def join(self, fragments: Sequence[ProviderDict], carrier: ProviderDict | None) -> list[ProviderDict]:
        return list(fragments)

    def render(self, results: Sequence[ToolResult]) -> list[ProviderDict]:
        return [self.fragment(result) for result in results]


def call_key(format: Format, message: ProviderDict) -> str | None:
    """The `Entry.key` of a line with calls or results, which is the same wherever the line is written again."""
    if calls := format.calls(message):
        return "call:" + ",".join(site.id for site in calls)
    if results := format.answers(message):
        return "result:" + ",".join(results)
    return None
