"""Calls of tools that Anthropic runs itself, without a result: the turn was paused or cut off, and then left.

The provider continues such a turn as long as nothing but results follows. A user's turn ends it, and every request from
then on is refused for the call without a result. So the call gets one before that, in a further message of the reply:
that it is unavailable, in the provider's own words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from relight.journal.formats.anthropic import ANTHROPIC
from relight.journal.formats.content import text_of
from relight.journal.formats.format import Format, ProviderDict

PROVIDER_RUN: Final = ("server_tool_use", "mcp_tool_use")
_SEARCHES: Final = "tool_search_tool_"
_NOT_ENDED: Final = "not ended: the turn was broken off"


def is_users(format: Format, message: ProviderDict) -> bool:
    """Whether it is what a user says, and no result of a call."""
    return not format.is_assistant(message) and not format.answers(message)


def ended_turn(format: Format, before: Sequence[ProviderDict], added: list[ProviderDict]) -> list[ProviderDict]:
    """What is added to the conversation. Where a user's turn begins, the calls that the provider has not ended get
    results in front of it."""
    if format is not ANTHROPIC or not added or not is_users(format, added[0]):
        return added
    begun, ended = [], set()
    for message in reversed(before):
        if is_users(format, message):
            break
        content = message.get("content")
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        begun += [block for block in reversed(blocks) if block.get("type") in PROVIDER_RUN]
        ended |= {text_of(block.get("tool_use_id")) for block in blocks}
    results = [_not_ended(block) for block in reversed(begun) if text_of(block.get("id")) not in ended]
    return [{"role": "assistant", "content": results}, *added] if results else added


def _not_ended(block: ProviderDict) -> ProviderDict:
    answered = {"tool_use_id": block.get("id")}
    if block["type"] == "mcp_tool_use":
        return {"type": "mcp_tool_result", **answered, "is_error": True, "content": _NOT_ENDED}
    name = text_of(block.get("name"))
    kind = "tool_search_tool_result" if name.startswith(_SEARCHES) else f"{name}_tool_result"
    error = {"type": f"{kind}_error", "error_code": "unavailable"}
    return {"type": kind, **answered, "content": error}
