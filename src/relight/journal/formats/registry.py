"""The table of formats, and the detection of a conversation's format.

The first message that is specific to a format decides; a plain `{"role": "user", "content": "text"}` fits all of them.
Only if no message decides, the provider's name counts, and without one it is Chat Completions, the most common format.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from relight.journal.formats.anthropic import ANTHROPIC
from relight.journal.formats.claude_code import CLAUDE_CODE
from relight.journal.formats.codex import CODEX
from relight.journal.formats.format import Format, ProviderDict
from relight.journal.formats.openai_chat import OPENAI_CHAT
from relight.journal.formats.openai_responses import OPENAI_RESPONSES

FORMATS: Final[tuple[Format, ...]] = (ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES, CLAUDE_CODE, CODEX)
_BY_NAME: Final = {format.name: format for format in FORMATS}
_HINTS: Final[tuple[tuple[str, Format], ...]] = (
    ("anthropic", ANTHROPIC),
    ("claude", ANTHROPIC),
    ("responses", OPENAI_RESPONSES),
    ("codex", OPENAI_RESPONSES),
)


def by_name(name: str) -> Format:
    """The format of this name; LookupError lists the known ones."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise LookupError(f"no format {name!r}; there are {', '.join(_BY_NAME)}") from None


def detect(messages: Iterable[ProviderDict], provider: str | None = None) -> Format:
    """The format of these messages. `provider` is used only if no message decides."""
    for message in messages:
        for format in FORMATS:
            if format.recognises(message):
                return format
    hint = (provider or "").lower()
    return next((format for word, format in _HINTS if word in hint), OPENAI_CHAT)
