"""Source code as HTML, coloured by classes. Pygments reads it; what it does not know, or takes too long, is plain text.

The regular expressions of a lexer may take quadratic time for hostile text. So the text is bounded, its lines too, and
a page colours a bounded number of characters.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from markupsafe import Markup, escape
from pygments.lexer import Lexer  # type: ignore[import-untyped]
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
from pygments.token import Comment, Keyword, Name, Number, Operator, String, _TokenType  # type: ignore[import-untyped]

from relight.server.reading.inert import inert

MAX_CODE: Final = 16 * 1024
"""characters of one text that are coloured; a longer one is plain"""
MAX_LINE: Final = 1000
_LANGUAGES: Final = {
    "bash": "sh shell zsh console",
    "c": "h",
    "cpp": "cc hpp cxx c++",
    "css": "",
    "diff": "patch",
    "docker": "dockerfile",
    "go": "golang",
    "html": "htm",
    "ini": "cfg conf",
    "java": "",
    "javascript": "js jsx mjs",
    "json": "jsonl",
    "kotlin": "kt",
    "make": "makefile mk",
    "php": "",
    "python": "py python3 pyi",
    "ruby": "rb",
    "rust": "rs",
    "sql": "",
    "swift": "",
    "toml": "",
    "typescript": "ts tsx",
    "xml": "svg",
    "yaml": "yml",
}
_NAMES: Final = {name: language for language, names in _LANGUAGES.items() for name in (language, *names.split())}
_CLASSES: Final[tuple[tuple[_TokenType, str], ...]] = (
    (Comment, "c"),
    (String, "s"),
    (Number, "m"),
    (Keyword, "k"),
    (Operator.Word, "k"),
    (Name.Function, "f"),
    (Name.Class, "f"),
    (Name.Decorator, "f"),
    (Name.Tag, "f"),
    (Name.Attribute, "a"),
)


def language_of(name: str) -> str:
    """The language that a fence or a file name means; empty if it is not known."""
    plain = name.strip().lower().rpartition("/")[2]
    return _NAMES.get(plain) or _NAMES.get(plain.rpartition(".")[2], "")


@cache
def _lexer(language: str) -> Lexer:
    return get_lexer_by_name(language, stripnl=False, ensurenl=False)


@cache
def _class(kind: _TokenType) -> str:
    return next((name for base, name in _CLASSES if kind in base), "")


def is_bounded(text: str) -> bool:
    """Whether a text is short enough, in all and in each line, to be coloured."""
    return len(text) <= MAX_CODE and all(len(line) <= MAX_LINE for line in text.split("\n"))


def coloured(text: str, language: str) -> Markup:
    """The code as HTML without a block around it. Its text is exactly `text`, with control characters made visible."""
    text = inert(text)
    known = _NAMES.get(language)
    if known is None or not is_bounded(text):
        return escape(text)
    return Markup("").join(_spans(_lexer(known), text))


def _spans(lexer: Lexer, text: str) -> Iterator[Markup]:
    for _, kind, value in lexer.get_tokens_unprocessed(text):
        name = _class(kind)
        yield Markup('<span class="{}">{}</span>').format(name, value) if name else escape(value)
