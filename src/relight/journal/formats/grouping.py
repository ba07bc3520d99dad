"""How formats group results: each in a message of its own, or all results of one reply in one message."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from operator import is_
from typing import Any, ClassVar

from relight.journal.formats.content import text_of
from relight.journal.formats.format import CallSite, ProviderDict, ToolResult, argument_faults
from relight.values.view import Block, Message, Role


class OwnMessages(ABC):
    """Base of a `Format` in which each result is a message of its own."""

    native = False
    shares = False
    opens_with_user = False

    @abstractmethod
    def answers(self, message: ProviderDict) -> tuple[str, ...]:
        """The ids as `Format.answers` gives them."""

    @abstractmethod
    def fragment(self, result: ToolResult) -> ProviderDict:
        """As `Format.fragment`: the whole message."""

    def split(self, message: ProviderDict) -> tuple[list[tuple[str, ProviderDict]], ProviderDict | None]:
        answered = self.answers(message)
        return ([(name, message) for name in answered], None) if answered else ([], message)

    def join(self, fragments: Sequence[ProviderDict], carrier: ProviderDict | None) -> list[ProviderDict]:
        return list(fragments)

    def render(self, results: Sequence[ToolResult]) -> list[ProviderDict]:
        return [self.fragment(result) for result in results]


class OneMessage(ABC):
    """Base of a `Format` in which the results of one reply are the first blocks of the user message behind it."""

    native = False
    spans = False
    shares = True
    opens_with_user = True
    content = "content"
    """the field with the blocks"""
    roles: ClassVar[dict[str, Role]] = {"user": "user", "assistant": "assistant"}

    @abstractmethod
    def calls(self, message: ProviderDict) -> tuple[CallSite, ...]:
        """The calls as `Format.calls` gives them."""

    @abstractmethod
    def answers(self, message: ProviderDict) -> tuple[str, ...]:
        """The ids as `Format.answers` gives them: one for each block that is a result."""

    @abstractmethod
    def fragment(self, result: ToolResult) -> ProviderDict:
        """As `Format.fragment`: the block."""

    @abstractmethod
    def is_result(self, block: Any) -> bool:
        """Whether a block of a message that answers calls is a result."""

    @abstractmethod
    def read_result(self, call: str, block: ProviderDict) -> tuple[Block, ...]:
        """The neutral view of a result."""

    @abstractmethod
    def read_rest(self, message: ProviderDict) -> tuple[Block, ...]:
        """The neutral view of a message without results."""

    def split(self, message: ProviderDict) -> tuple[list[tuple[str, ProviderDict]], ProviderDict | None]:
        answered = self.answers(message)
        if not answered:
            return [], message
        blocks: list[Any] = message[self.content]
        found = [block for block in blocks if self.is_result(block)]
        rest = [block for block in blocks if not self.is_result(block)]
        return list(zip(answered, found, strict=True)), {**message, self.content: rest} if rest else None

    def join(self, fragments: Sequence[ProviderDict], carrier: ProviderDict | None) -> list[ProviderDict]:
        if carrier is None:
            return [{"role": "user", self.content: list(fragments)}]
        former: list[Any] = carrier[self.content]
        blocks = [*fragments, *(block for block in former if not self.is_result(block))]
        unchanged = len(blocks) == len(former) and all(map(is_, blocks, former))
        return [carrier if unchanged else {**carrier, self.content: blocks}]

    def render(self, results: Sequence[ToolResult]) -> list[ProviderDict]:
        return self.join([self.fragment(result) for result in results], None) if results else []

    def faults(self, message: ProviderDict) -> list[str]:
        found = argument_faults(self.calls(message))
        answered = len(self.answers(message))
        if answered and not all(map(self.is_result, message[self.content][:answered])):
            found.append("results do not come first in their message")
        return found

    def read(self, messages: Sequence[ProviderDict]) -> list[Message]:
        return [part for index, message in enumerate(messages) for part in self._parts(message, index)]

    def _parts(self, message: ProviderDict, index: int) -> list[Message]:
        """A user dict with results and text is two messages: the tools' and the user's."""
        fragments, rest = self.split(message)
        parts = []
        if fragments:
            blocks = tuple(block for call, result in fragments for block in self.read_result(call, result))
            parts.append(Message(role="tool", blocks=blocks, index=index))
        if rest is not None:
            role = self.roles.get(text_of(message.get("role")), "system")
            parts.append(Message(role=role, blocks=self.read_rest(rest), index=index))
        return parts
