"""The agent's last sentence, quoted in lists instead of a summary: facts do not go stale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from relight.journal.formats.format import Format
from relight.model.view import Text

LENGTH: Final = 120


def last_said(format: Format, messages: Sequence[dict[str, Any]]) -> str | None:
    """The first line of the newest text the model produced in these messages; None where it said nothing."""
    for message in reversed(messages):
        if not format.is_assistant(message):
            continue
        for view in format.read([message]):
            for block in view.blocks:
                if isinstance(block, Text) and (text := block.text.strip()):
                    return text.splitlines()[0][:LENGTH]
    return None


def spoken_text(format: Format, messages: Sequence[dict[str, Any]]) -> str:
    """All text of one reply."""
    texts = [
        block.text
        for view in format.read(list(messages))
        if view.role == "assistant"
        for block in view.blocks
        if isinstance(block, Text)
    ]
    return "\n".join(texts)
