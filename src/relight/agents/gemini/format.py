"""Lines that we make from the records of Gemini CLI: {id, timestamp, type: user | gemini, content: parts}.

A record changes while it is on disk: a reply is written without its calls, and again with them and their results when
all have ended. A line never changes: so the words of a reply, each of its calls and each result are lines of their own.
Lines of one record share its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from relight.agents.native.line_format import LineFormat
from relight.journal.formats.content import text_of
from relight.journal.formats.format import CallSite, ProviderDict, ToolResult
from relight.journal.formats.gemini import GEMINI
from relight.values.view import Block, Message, Reason, Role

REPLY: Final = "gemini"
SAID: Final = "user"
_ROLES: Final[dict[str, Role]] = {SAID: "user", REPLY: "assistant"}


class GeminiCli(LineFormat):
    """The format of `~/.gemini/tmp/*/chats/*.jsonl`."""

    name = "gemini_cli"
    spans = True

    def recognises(self, message: ProviderDict) -> bool:
        return (
            text_of(message.get("type")) in _ROLES
            and isinstance(message.get("id"), str)
            and isinstance(message.get("timestamp"), str)
            and "content" in message
            and "parentId" not in message
        )

    def is_assistant(self, message: ProviderDict) -> bool:
        return message.get("type") == REPLY

    def calls(self, message: ProviderDict) -> tuple[CallSite, ...]:
        return GEMINI.calls(_content(message)) if message.get("type") == REPLY else ()

    def answers(self, message: ProviderDict) -> tuple[str, ...]:
        return GEMINI.answers(_content(message)) if message.get("type") == SAID else ()

    def fragment(self, result: ToolResult) -> ProviderDict:
        return {"type": SAID, "content": [GEMINI.fragment(result)]}

    def faults(self, message: ProviderDict) -> list[str]:
        return GEMINI.faults(_content(message))

    def read(self, messages: Sequence[ProviderDict]) -> list[Message]:
        return [self._read(line, index) for index, line in enumerate(messages)]

    def user(self, text: str) -> ProviderDict:
        return {"type": SAID, "content": [{"text": text}]}

    def assistant(self, text: str) -> ProviderDict:
        return {"type": REPLY, "content": [{"text": text}]}

    def _read(self, line: ProviderDict, index: int) -> Message:
        """A result and the images that came with it are one message of the tool."""
        said = tuple(block for message in GEMINI.read([_content(line)]) for block in message.blocks)
        role = "tool" if self.answers(line) else _ROLES.get(text_of(line.get("type")), "system")
        return Message(role=role, blocks=(*_thoughts(line), *said), index=index)


GEMINI_CLI: Final = GeminiCli()


def parts_of(content: Any) -> list[dict[str, Any]]:
    """The parts of a content, which may be a text, one part, or a list of both."""
    given = content if isinstance(content, list) else [content]
    parts = [{"text": one} if isinstance(one, str) else one for one in given]
    return [one for one in parts if isinstance(one, dict) and one != {"text": ""}]


def _content(line: ProviderDict) -> ProviderDict:
    return {"role": "model" if line.get("type") == REPLY else "user", "parts": parts_of(line.get("content"))}


def _thoughts(line: ProviderDict) -> list[Block]:
    given = line.get("thoughts")
    found = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    texts = [" ".join(filter(None, map(text_of, (one.get("subject"), one.get("description"))))) for one in found]
    return [Reason(text=text) for text in texts if text]
