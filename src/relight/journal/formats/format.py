"""The interface of a provider format, and its two value types.

A format is a pure reader and writer of one provider's message dicts. All its methods are total: they accept unexpected
types and missing fields without raising. A call or result without a usable id has the id "". `calls` and `answers` are
called while loading; they check types first and build no view.

A result is handled as a fragment: the provider's own dict for it, which is a whole message in some formats and a block
inside one in others. `split` extracts fragments from a message, `join` groups them again, so that results can be moved
without being rewritten. Two bases do that: for each result in a message of its own, and for all of a reply in one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from operator import is_
from typing import Any, ClassVar, Protocol

import msgspec

from relight.journal.formats.content import parse_arguments, text_of
from relight.values.view import Block, Call, Message, ResultStatus, Role, op_of

ProviderDict = dict[str, Any]
"""One message or item exactly as the provider's API takes it."""


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one call before it has a provider's form."""

    call_id: str
    name: str = ""
    content: Any = ""
    """text, or a list of content blocks that the provider accepts in results; any other JSON becomes JSON text"""
    status: ResultStatus = "ok"
    kind: str = ""
    """as in the CallSite it answers"""
    caller: Any = None
    """as in the CallSite it answers"""


class CallSite(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call at its position in a message."""

    id: str
    name: str
    arguments: dict[str, Any] | str
    """as the provider sent it: an object, or text that should be JSON"""
    kind: str = ""
    """the provider's type of call if there are several, because the form of the result depends on it"""
    caller: Any = None
    """who calls, where the provider's own program may, and wants it repeated in the result"""

    def parsed(self) -> dict[str, Any] | str:
        """The arguments as an object, or as text if they are free text or not valid JSON."""
        return self.arguments if self.kind.startswith("custom") else parse_arguments(self.arguments)

    def view(self) -> Call:
        """The call in the neutral view."""
        return Call(id=self.id, name=self.name, arguments=self.parsed(), op=op_of(self.name))

    def result(self, content: Any, status: ResultStatus = "ok") -> ToolResult:
        told = {"kind": self.kind, "caller": self.caller}
        return ToolResult(call_id=self.id, name=self.name, content=content, status=status, **told)


def argument_faults(sites: Iterable[CallSite]) -> list[str]:
    """Calls whose arguments are no JSON object, for providers that refuse them."""
    return [
        f"the arguments of call {site.id!r} are no object" for site in sites if not isinstance(site.arguments, dict)
    ]


class Format(Protocol):
    """One provider's message format, as a protocol."""

    @property
    def name(self) -> str:
        """The name under which `by_name` finds it."""

    @property
    def native(self) -> bool:
        """Whether these are lines of an agent's own transcript, into which nothing is rendered."""

    @property
    def spans(self) -> bool:
        """Whether one reply is spread over consecutive messages."""

    @property
    def shares(self) -> bool:
        """Whether all results of one reply share one message."""

    @property
    def opens_with_user(self) -> bool:
        """Whether the first message must be the user's."""

    def recognises(self, message: ProviderDict) -> bool:
        """Whether this message can only be of this format. Plain text messages fit every format."""

    def is_assistant(self, message: ProviderDict) -> bool:
        """Whether the model produced it."""

    def calls(self, message: ProviderDict) -> tuple[CallSite, ...]:
        """The calls in this message that relight has to answer, in order."""

    def answers(self, message: ProviderDict) -> tuple[str, ...]:
        """Ids of the calls that this message answers, in order."""

    def split(self, message: ProviderDict) -> tuple[list[tuple[str, ProviderDict]], ProviderDict | None]:
        """The fragments by call id, and the message without them; None if nothing remains."""

    def join(self, fragments: Sequence[ProviderDict], carrier: ProviderDict | None) -> list[ProviderDict]:
        """The messages that carry one reply's results; other content of the former carrier stays with them.

        Returns the carrier itself if it is already correct.
        """

    def fragment(self, result: ToolResult) -> ProviderDict:
        """The provider's dict for one result."""

    def render(self, results: Sequence[ToolResult]) -> list[ProviderDict]:
        """The messages that carry the results of one reply, in the provider's own grouping."""

    def faults(self, message: ProviderDict) -> list[str]:
        """What the provider would refuse about this message alone, concerning calls and results."""

    def read(self, messages: Sequence[ProviderDict]) -> list[Message]:
        """The neutral view; every dict yields at least one message."""

    def user(self, text: str) -> ProviderDict:
        """A user message with this text."""

    def assistant(self, text: str) -> ProviderDict:
        """An assistant message with this text."""


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
