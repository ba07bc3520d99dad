"""Identifiers use the words of docs/glossary.md: none has a banned word as a part of its name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.files import ROOT, modules, nodes, texts

pytestmark = pytest.mark.house

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_BANNED = re.compile(r"^- `(\w+)`", re.MULTILINE)
_ENTRY = re.compile(r"^\| (?!word\b|-)([^|]+) \|", re.MULTILINE)


def glossary() -> str:
    return (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


def banned() -> set[str]:
    return set(_BANNED.findall(glossary().partition("## Banned in identifiers")[2]))


def parts(name: str) -> set[str]:
    """`OneLine` and `one_line` are both one and line. In capitals too, for words that are banned in constants only."""
    found = _PART.findall(name)
    return {part.lower() for part in found} | {part for part in found if part.isupper() and len(part) > 1}


def identifiers(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Classes, functions, arguments, and the constants and fields of modules and classes."""
    for node in nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        if isinstance(node, ast.Module | ast.ClassDef):
            for one in node.body:
                targets = one.targets if isinstance(one, ast.Assign) else [getattr(one, "target", None)]
                yield from ((target.id, target.lineno) for target in targets if isinstance(target, ast.Name))


def test_no_identifier_uses_a_banned_word() -> None:
    words = banned()
    assert len(words) > 20
    source = modules(only_source=True)
    found = [
        f"{name}:{line} {identifier}"
        for name, _, tree in source
        for identifier, line in identifiers(tree)
        if parts(identifier) & words
    ]
    found += [name for name, _, _ in source if parts(name.rpartition("/")[2][:-3]) & words]
    assert found == []


def test_prose_names_who_acts() -> None:
    """Docstrings, comments, messages, pages and documents: a caller, process, person, program or thread."""
    vague = re.compile(r"\b(?:whoever|nobody|somebody|anybody|anew)\b", re.IGNORECASE)
    kinds, exempt = (".py", ".js", ".html", ".md"), ("docs/decisions/", "docs/glossary.md")
    found = [
        f"{name}: {match[0]}"
        for name, text in texts()
        if name.startswith(("src/", "docs/")) and name.endswith(kinds) and not name.startswith(exempt)
        for match in vague.finditer(text)
    ]
    assert found == []


def test_no_word_is_explained_twice() -> None:
    words = [word.strip() for cell in _ENTRY.findall(glossary()) for word in cell.split(",")]
    assert len(words) >= 60
    assert sorted(words) == sorted(set(words))


def test_no_class_uses_a_word_of_the_glossary_with_a_second_meaning() -> None:
    """A class named as an entry is unique; only implementations of ports may repeat it, each in its package."""
    entries = {
        "".join(map(str.capitalize, word.split())) for cell in _ENTRY.findall(glossary()) for word in cell.split(",")
    }
    defined: dict[str, list[str]] = {}
    for name, _, tree in modules(only_source=True):
        for node in nodes(tree):
            if isinstance(node, ast.ClassDef) and node.name.lstrip("_") in entries:
                defined.setdefault(node.name.lstrip("_"), []).append(name.removeprefix("src/relight/"))
    siblings = {"stores", "runtimes", "agents", "frameworks", "blobs"}
    twice = {word: found for word, found in defined.items() if len(found) > 1}
    allowed = {word for word, found in twice.items() if len({one.partition("/")[0] for one in found} - siblings) == 0}
    assert {word: found for word, found in twice.items() if word not in allowed} == {}
