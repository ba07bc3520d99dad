"""Why a model stopped: done, cut off, refused, or paused by its provider.

Only a reply that is done is a result. One that was cut off or refused ends the session as `halted`; the next attempt
asks the model again without it, because many models refuse a conversation that ends with a reply. Calls in it are not
run, because their arguments may be incomplete: they are answered as not run, and the model goes on. A paused turn is
continued.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

CUT_OFF: Final = "not run: the reply that asks for it was cut off, so its arguments may be incomplete"
MAX_PAUSES: Final = 20
"""replies in a row in which a provider may pause its own turn"""
EMPTY_REPLY: Final = "[the reply was empty]"
"""text of a reply without content: providers refuse an empty message in the middle of a conversation"""
REFUSED_REPLY: Final = "[the model refused to reply]"
_CUT: Final = frozenset(
    {
        "max_tokens", "length", "model_length", "model_context_window_exceeded",
        "incomplete", "max_output_tokens", "max_messages", "steered",
    }
)  # fmt: skip
_REFUSED: Final = frozenset(
    {
        "refusal", "content_filter", "content_filtered", "guardrail_intervened",
        "safety", "recitation", "blocklist", "prohibited_content", "spii", "language",
        "image_safety", "image_prohibited_content", "image_recitation",
    }
)  # fmt: skip
_BROKEN: Final = frozenset(
    {
        "malformed_function_call", "unexpected_tool_call", "too_many_tool_calls", "missing_thought_signature",
        "malformed_response", "malformed_model_output", "malformed_tool_use", "other", "image_other", "no_image",
        "cancelled", "failed",
    }
)  # fmt: skip
_PAUSED: Final = frozenset({"pause_turn", "compaction"})
PROVIDER_RUN: Final = ("server_tool_use", "mcp_tool_use")
"""calls of tools that Anthropic runs itself"""
_REFUSAL_CHARS: Final = 200


def is_cut_off(stop: str | None) -> bool:
    """Whether the reply ended before the model was done. It is then no result, and its calls may lack arguments."""
    return _word(stop) in _CUT | _REFUSED | _BROKEN


def why_cut_off(stop: str | None, text: str | None = None) -> str:
    """The reason with which a session halts after such a reply; `text` is what the reply says."""
    if _word(stop) in _REFUSED:
        said = f": {text[:_REFUSAL_CHARS]}" if text else ""
        return f"the model refused to reply ({stop}){said}; change the prompt, or fork from an earlier step"
    if _word(stop) in _BROKEN:
        return f"the last reply is not usable ({stop}): run it again to ask for another, or give another prompt"
    return f"the last reply was cut off ({stop}): allow it more tokens, or give another prompt"


def is_paused(messages: Sequence[dict[str, Any]], stop: str | None) -> bool:
    """Whether the provider wants the same conversation again, to continue with tools that it runs itself."""
    if stop in _PAUSED:
        return True
    content = messages[-1].get("content") if messages else None
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    begun = [block.get("id") for block in blocks if block.get("type") in PROVIDER_RUN]
    ended = {block.get("tool_use_id") for block in blocks}
    return any(one not in ended for one in begun)


def _word(stop: str | None) -> str:
    """Gemini spells its reasons in capitals."""
    return (stop or "").lower()
