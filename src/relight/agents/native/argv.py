"""Parses command lines of other programs into flags, their values and positional words.

A grammar lists the flags with one value, several, or an optional one. Unknown flags are passed through; the word after
one is its value if there would otherwise be more positional words than the program accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from relight.errors import UsageError

_END: Final = "--"


def names(text: str) -> frozenset[str]:
    """Names in one text, with spaces between them."""
    return frozenset(text.split())


class Grammar(msgspec.Struct, frozen=True, kw_only=True):
    """What flags a program has. Long names; `short` gives the letters."""

    one: frozenset[str] = frozenset()
    many: frozenset[str] = frozenset()
    """takes values until the next flag"""
    maybe: frozenset[str] = frozenset()
    """takes the next argument unless that is a flag"""
    bare: frozenset[str] = frozenset()
    short: dict[str, str] = {}
    words: int = 1
    """number of positional words the program accepts"""

    def takes_value(self, name: str) -> bool:
        return name in self.one or name in self.many or name in self.maybe

    def knows(self, name: str) -> bool:
        return self.takes_value(name) or name in self.bare


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A flag with its values, or a word."""

    spelled: tuple[str, ...]
    """the arguments as they were given"""
    name: str = ""
    """the flag's long name; empty for a word"""
    values: tuple[str, ...] = ()


class CommandLine(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments in parts, in order."""

    parts: tuple[Part, ...]

    def has(self, *names: str) -> bool:
        return any(part.name in names for part in self.parts)

    def value(self, *names: str) -> str | None:
        """The last value given for any of these flags."""
        found = [part.values[-1] for part in self.parts if part.name in names and part.values]
        return found[-1] if found else None

    def words(self) -> tuple[str, ...]:
        return tuple(part.values[0] for part in self.parts if not part.name)

    def without(self, *names: str) -> CommandLine:
        return self._kept(lambda part: part.name not in names)

    def without_words(self) -> CommandLine:
        return self._kept(lambda part: bool(part.name))

    def arguments(self) -> tuple[str, ...]:
        """The arguments as given; words after `--` stay after one."""
        flags: list[str] = []
        behind: list[str] = []
        for part in self.parts:
            guarded = not part.name and part.spelled[0] == _END
            (behind if guarded else flags).extend(part.values if guarded else part.spelled)
        return (*flags, _END, *behind) if behind else tuple(flags)

    def _kept(self, keep: Callable[[Part], bool]) -> CommandLine:
        return CommandLine(parts=tuple(part for part in self.parts if keep(part)))


def parse(arguments: Sequence[str], grammar: Grammar) -> CommandLine:
    """Parse a command line. UsageError if a flag lacks its value."""
    parts: list[Part] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == _END:
            parts += [Part(spelled=(_END, word), values=(word,)) for word in rest]
            break
        if argument.startswith("--"):
            parts.append(_long(argument, rest, grammar))
        elif argument.startswith("-") and argument != "-":
            parts += _short(argument, rest, grammar)
        else:
            parts.append(Part(spelled=(argument,), values=(argument,)))
    return CommandLine(parts=tuple(_settled(parts, grammar)))


def _long(argument: str, rest: list[str], grammar: Grammar) -> Part:
    name, equals, value = argument.partition("=")
    if equals:
        return Part(spelled=(argument,), name=name, values=(value,))
    values = _values(name, rest, grammar)
    return Part(spelled=(argument, *values), name=name, values=values)


def _short(argument: str, rest: list[str], grammar: Grammar) -> Iterable[Part]:
    """Split a short-flag argument: `-p`, `-m opus`, `-mopus`, `-cp`."""
    letters = argument[1:]
    for index, letter in enumerate(letters):
        name = grammar.short.get(letter)
        if name is None:
            yield Part(spelled=(f"-{letters[index:]}",), name=f"-{letters[index:]}")
            return
        if grammar.takes_value(name):
            inline = letters[index + 1 :]
            values = (inline.removeprefix("="),) if inline else _values(name, rest, grammar)
            yield Part(spelled=(f"-{letter}{inline}",) if inline else (f"-{letter}", *values), name=name, values=values)
            return
        yield Part(spelled=(f"-{letter}",), name=name)


def _values(name: str, rest: list[str], grammar: Grammar) -> tuple[str, ...]:
    """Take the values of a flag from the arguments that follow."""
    if name in grammar.one:
        if not rest:
            raise UsageError(f"{name} needs a value; the command ends after it")
        return (rest.pop(0),)
    taken: list[str] = []
    most = len(rest) if name in grammar.many else 1 if name in grammar.maybe else 0
    while rest and len(taken) < most and (not rest[0].startswith("-") or rest[0] == "-"):
        taken.append(rest.pop(0))
    return tuple(taken)


def _settled(parts: list[Part], grammar: Grammar) -> Iterable[Part]:
    """Assign surplus positional words to the unknown flags before them."""
    spare = sum(not part.name for part in parts) - grammar.words
    pending: Part | None = None
    for part in parts:
        if pending is not None:
            if not part.name and part.spelled[0] != _END and spare > 0:
                spare -= 1
                yield Part(spelled=(*pending.spelled, *part.spelled), name=pending.name, values=part.values)
                pending = None
                continue
            yield pending
            pending = None
        if part.name and not grammar.knows(part.name) and not part.values:
            pending = part
        else:
            yield part
    if pending is not None:
        yield pending
