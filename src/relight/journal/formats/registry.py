"""The table of formats, and the detection of a conversation's format.

The first message that is specific to a format decides; a plain `{"role": "user", "content": "text"}` fits all of them.
Only if no message decides, the provider's name counts, and without one it is Chat Completions, the most common format.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Final

from relight.journal import extensions
from relight.journal.formats.anthropic import ANTHROPIC
from relight.journal.formats.bedrock import BEDROCK
from relight.journal.formats.format import Format, ProviderDict
from relight.journal.formats.gemini import GEMINI
from relight.journal.formats.openai_chat import OPENAI_CHAT
from relight.journal.formats.openai_responses import OPENAI_RESPONSES

_PROVIDERS: Final[tuple[Format, ...]] = (ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES, BEDROCK, GEMINI)

_HINTS: Final[tuple[tuple[str, Format], ...]] = (
    ("anthropic", ANTHROPIC),
    ("claude", ANTHROPIC),
    ("responses", OPENAI_RESPONSES),
    ("codex", OPENAI_RESPONSES),
    # Not every "bedrock" or "gemini" has a form of its own: both are also reached through Anthropic's and OpenAI's.
    ("converse", BEDROCK),
    ("genai", GEMINI),
)


@cache
def formats() -> tuple[Format, ...]:
    """All formats: those of providers' APIs, and of native transcripts."""
    return (*_PROVIDERS, *extensions.installed().formats())


def by_name(name: str) -> Format:
    """The format of this name; LookupError lists the known ones."""
    found = next((format for format in formats() if format.name == name), None) or _foreign(name)
    if found is None:
        raise LookupError(f"no format {name!r}; there are {', '.join(format.name for format in formats())}")
    return found


def recognised(message: ProviderDict) -> Format | None:
    """The format that this message can only be of, if there is one."""
    found = _first_of(_PROVIDERS, message)
    # Agents' formats are imported at their first use, and those of other distributions are costly to look for. A
    # message with a role fits a provider's API, and a native line has none: a model's conversation pays for neither.
    if found is None and "role" not in message:
        installed = extensions.installed()
        return _first_of(installed.formats(), message) or _first_of(installed.more_formats(), message)
    return found


def _first_of(candidates: Iterable[Format], message: ProviderDict) -> Format | None:
    return next((format for format in candidates if format.recognises(message)), None)


def detect(messages: Iterable[ProviderDict], provider: str | None = None) -> Format:
    """The format of these messages. `provider` is used only if no message decides."""
    found = (format for message in messages if (format := recognised(message)) is not None)
    return next(found, None) or _assumed(provider or "")


def _foreign(name: str) -> Format | None:
    return next((format for format in extensions.installed().more_formats() if format.name == name), None)


@lru_cache(maxsize=64)
def _assumed(provider: str) -> Format:
    """The format that a provider's name suggests. Cached: a fold of plain messages asks for it at every step."""
    return next((format for word, format in _HINTS if word in provider.lower()), OPENAI_CHAT)
