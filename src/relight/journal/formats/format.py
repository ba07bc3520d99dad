"""What every provider format can do, and the two values it trades in.

A format is a pure reader and writer of one provider's message dicts. All its methods are total: a dict with
strange types or missing fields is answered, never raised on. A call or result without a usable id has the id
"". `calls` and `answers` are on the path of loading; they look at types first and build no view.

A result travels as a fragment: the provider's own dict for it, which is a whole message in some formats and a
block inside one in others. `split` takes fragments out of a message, `join` groups them again, so that
normalising moves results without rewriting them.

A format does not know which calls are open, nor what a valid history is as a whole: `normalise` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from relight.journal.formats.content import parse_arguments
from relight.values.view import Call, Message, ResultStatus, op_of

ProviderDict = dict[str, Any]
"""One message or item exactly as the provider's API takes it."""


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one call before it has a provider's form."""

    call_id: str
    name: str = ""
    content: Any = ""
    """text; or a list of content blocks this provider takes in results; any other JSON becomes JSON text"""
    status: ResultStatus = "ok"
    kind: str = ""
    """as in the CallSite it answers"""


class CallSite(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call where it stands in a message."""

    id: str
    name: str
    arguments: dict[str, Any] | str
    """as the provider gave it: an object, or text that should be JSON"""
    kind: str = ""
    """the provider's type of call where there are several, because results are spelled after it"""

    def parsed(self) -> dict[str, Any] | str:
        """The arguments as an object, or as the text they are where they spell none or are free text."""
        return self.arguments if self.kind.startswith("custom") else parse_arguments(self.arguments)

    def view(self) -> Call:
        """The call as the neutral view has it."""
        return Call(id=self.id, name=self.name, arguments=self.parsed(), op=op_of(self.name))

    def result(self, content: Any, status: ResultStatus = "ok") -> ToolResult:
        """A result for this call."""
        return ToolResult(call_id=self.id, name=self.name, content=content, status=status, kind=self.kind)


class Format(Protocol):
    """One provider's way to write a conversation."""

    @property
    def name(self) -> str:
        """How `by_name` finds it."""

    @property
    def native(self) -> bool:
        """Are these lines of an agent's own transcript, into which nothing is rendered?"""

    @property
    def spans(self) -> bool:
        """Is one reply spread over consecutive messages (and not one message)?"""

    @property
    def shares(self) -> bool:
        """Do all results of one reply share one message?"""

    @property
    def opens_with_user(self) -> bool:
        """Must the first message be the user's?"""

    def recognises(self, message: ProviderDict) -> bool:
        """Can this message only be of this format? Plain text messages tell nothing."""

    def is_assistant(self, message: ProviderDict) -> bool:
        """Did the model produce it?"""

    def calls(self, message: ProviderDict) -> tuple[CallSite, ...]:
        """The calls in this message that wait for a result of ours, in order."""

    def answers(self, message: ProviderDict) -> tuple[str, ...]:
        """Ids of the calls that this message answers, in order."""

    def split(self, message: ProviderDict) -> tuple[list[tuple[str, ProviderDict]], ProviderDict | None]:
        """The fragments by call id, and the message without them; None where nothing is left."""

    def join(self, fragments: Sequence[ProviderDict], carrier: ProviderDict | None) -> list[ProviderDict]:
        """The messages that carry one reply's results; other content of the former carrier stays with them.

        The carrier itself comes back when it already is what it should be.
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
        """A message in which the user says text."""

    def assistant(self, text: str) -> ProviderDict:
        """A message in which the model says text."""
