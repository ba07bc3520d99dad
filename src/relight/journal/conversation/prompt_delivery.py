"""Was a coding agent told its next prompt? Decided by what its transcript says, whoever reads it.

A prompt waits in the journal until the agent has written it down. The line may be taken in by the supervisor, by a hook
that found no supervisor, or by the next start, which catches up with the transcript before it says anything. Only lines
of an attempt that was to deliver the prompt count: the same words, said before, are another prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from relight.journal.conversation.dialogue import NEXT_PROMPT
from relight.journal.fold import Fold
from relight.journal.formats.format import ProviderDict
from relight.values.view import Text


def delivers(fold: Fold, lines: Sequence[ProviderDict], *, upto: int, redact: Callable[[str], str]) -> bool:
    """Do these lines, new to the journal, hold the prompt that waits?

    `upto`: the newest attempt that can have written them. The prompt is recorded without its secrets and the agent may
    have been told them, so both are compared in the form that is recorded.
    """
    waiting = fold.answers.get(NEXT_PROMPT)
    if not isinstance(waiting, str) or fold.prompt_from > upto:
        return False
    view = fold.format_with(lines).read(lines)
    said = (block.text for one in view if one.role == "user" for block in one.blocks if isinstance(block, Text))
    return any(holds(redact(text), waiting) for text in said)


def holds(text: str, prompt: str) -> bool:
    """Is it the prompt, alone or as whole lines of a longer text (a brief ends with it)? Words inside of a sentence are
    something else: `go` is no part of `let it go`."""
    wanted = prompt.strip()
    return bool(wanted) and f"\n{wanted}\n" in f"\n{text.strip()}\n"
