"""Whether a coding agent has received its next prompt, decided by its transcript.

A prompt waits in the journal until the agent has written it to its transcript. The line may be read by the supervisor,
by a hook that found no supervisor, or by the next start, which catches up with the transcript first. Only lines of an
attempt that was to deliver the prompt count: an equal text from before is another prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from relight.journal.conversation.dialogue import NEXT_PROMPT
from relight.journal.fold import Fold
from relight.journal.formats.format import ProviderDict
from relight.values.view import Text


def delivers(fold: Fold, lines: Sequence[ProviderDict], *, upto: int, redact: Callable[[str], str]) -> bool:
    """Whether these lines, new to the journal, contain the waiting prompt.

    `upto`: the newest attempt that can have written them. The prompt is recorded redacted, while the agent may have got
    the secrets, so both are compared in redacted form.
    """
    waiting = fold.answers.get(NEXT_PROMPT)
    if not isinstance(waiting, str) or fold.prompt_from > upto:
        return False
    view = fold.format_with(lines).read(lines)
    said = (block.text for one in view if one.role == "user" for block in one.blocks if isinstance(block, Text))
    return any(holds(redact(text), waiting) for text in said)


def holds(text: str, prompt: str) -> bool:
    """Whether it is the prompt, alone or as whole lines of a longer text (a brief ends with it). A match inside a
    sentence does not count: `go` is no part of `let it go`."""
    wanted = prompt.strip()
    return bool(wanted) and f"\n{wanted}\n" in f"\n{text.strip()}\n"
