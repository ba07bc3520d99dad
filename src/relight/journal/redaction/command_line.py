"""A command line as it may be recorded, and its expansion for a start.

A word that contains the value of a variable is recorded with the variable's name instead, and expanded with the current
value at the next start. Any other secret is removed from the record: only the process that was given the command can
start it. A coding agent's prompt is the exception: a resumed agent does not need it again, and if it does, it gets it
without the secret.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from relight.journal.redaction.secrets.spans import OPENING, mark

if TYPE_CHECKING:
    from relight.journal.redaction.redactor import Redactor

_MARK: Final = re.compile(re.escape(OPENING) + r"([^\]]+)\]")
_ANOTHER_FORM: Final = "encoded "
"""prefix of a variable name whose value appeared in encoded form: inserting the plain value would be wrong"""


class Recordable(NamedTuple):
    """A command line without secrets."""

    words: list[str]
    variables: list[str]
    """names of the variables that the next start needs"""
    lost: list[str]
    """kinds of removed secrets that are in no variable"""


def recordable(
    command: Sequence[str], redactor: Redactor, environment: Mapping[str, str], *, prompt: str | None = None
) -> Recordable:
    """The recordable form of a command. `prompt`: the word that is the agent's prompt."""
    made = Recordable([], [], [])
    for index, word in enumerate(command):
        after = _without(command, index, redactor)
        names = [name for name in _MARK.findall(after) if name in environment and mark(name) not in word]
        if after != word and expanded([after], names, environment) != [word]:
            for name in names:
                after = after.replace(mark(name), mark(_ANOTHER_FORM + name))
            if word != prompt:
                made.lost.extend(kind for kind in _MARK.findall(after) if kind not in made.lost)
            names = []
        made.words.append(after)
        made.variables.extend(name for name in names if name not in made.variables)
    return made


def expanded(command: Sequence[str], variables: Collection[str], environment: Mapping[str, str]) -> list[str]:
    """The command with the values of these variables; an unset variable stays a name."""

    def value(found: re.Match[str]) -> str:
        name = found[1]
        return environment[name].strip() if name in variables and environment.get(name) else found[0]

    return [_MARK.sub(value, word) if OPENING in word else word for word in command]


def _without(command: Sequence[str], index: int, redactor: Redactor) -> str:
    """One word without its secrets: those recognisable in it, and those that a preceding option announces."""
    word = command[index]
    after = redactor.text(word)
    if after != word or index == 0:
        return after
    program = command[0].rpartition("/")[2]
    before = f"{program} {command[index - 1]} " if index > 1 else f"{program} "
    together = redactor.text(before + word)
    return together[len(before) :] if together.startswith(before) else word
