"""Made-up secrets in logs, tracebacks, histories, settings, dumps, listings, and in texts that are encoded once more.

`texts(random)` yields (kind, secret, text), beside those of secret_corpus.py. The templates are in tests/data: kind,
text with `{S:FORM}` where a secret of that form stands and `{FORM}` where anything else does, and how it is encoded.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import quote, quote_plus

from tests.unit.journal.secret_corpus import BASE64, DIGITS, HEX, LOWER, SAFE, UPPER, WORD, mixed, some

TEMPLATES: Final = Path(__file__).parents[2] / "data" / "secrets-in-places.jsonl"
_ALPHABETS: Final = {
    "hex": HEX, "HEX": HEX.upper(), "low": LOWER + DIGITS, "an": LOWER, "AN": UPPER + DIGITS, "b64": BASE64,
    "safe": SAFE, "dig": DIGITS,
}  # fmt: skip
_PLACE: Final = re.compile(r"\{(S:)?([a-zA-Z]+?(?:(?<=b)64)?)(\d*)\}")


def _password(random: Random) -> str:
    return random.choice([
        mixed(random, 14),
        random.choice(["Sommer", "Tiger", "Blue-Ocean"]) + some(random, DIGITS, 3) + random.choice("!#%*?"),
        some(random, LOWER, 4) + random.choice("-_") + some(random, LOWER, 5) + some(random, DIGITS, 3),
        mixed(random, 9) + random.choice("!^~*") + mixed(random, 4),
    ])  # fmt: skip


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _token(random: Random) -> str:
    head, body = ({"alg": "RS256"}, {"sub": some(random, WORD, 10), "iat": 1700000000})
    return ".".join((*(_encoded(json.dumps(one)).rstrip("=") for one in (head, body)), some(random, SAFE, 86)))


_FORMS: Final[dict[str, Callable[[Random], str]]] = {
    "pw": _password,
    "uuid": lambda r: "-".join(some(r, HEX, n) for n in (8, 4, 4, 4, 12)),
    "jwt": _token,
    "gh": lambda r: "ghp_" + mixed(r, 36),
    "ant": lambda r: f"sk-ant-api03-{some(r, SAFE, 93)}AA",
    "oai": lambda r: "sk-proj-" + some(r, WORD, 60),
    "user": lambda r: some(r, LOWER, 6),
    "b64pw": lambda r: _encoded(_password(r)),
    "basic": lambda r: _encoded(f"{some(r, LOWER, 5)}:{_password(r)}"),
}


def _drawn(random: Random, form: str, length: str) -> str | None:
    if form in _FORMS and not length:
        return _FORMS[form](random)
    if form == "mix":
        return mixed(random, int(length))
    return some(random, _ALPHABETS[form], int(length)) if form in _ALPHABETS and length else None


def _filled(random: Random, template: str) -> tuple[str, list[str]]:
    secrets: list[str] = []

    def fill(found: re.Match[str]) -> str:
        value = _drawn(random, found[2], found[3])
        if value is None:
            return found[0]
        if found[1]:
            secrets.append(value)
        return value

    return _PLACE.sub(fill, template), secrets


def encoded(text: str, secret: str, form: str) -> tuple[str, str]:
    """The text in another form, and what of the secret is in it."""
    if form == "notebook":
        cells = [{"cell_type": "code", "source": [text], "outputs": [], "execution_count": 1}]
        return json.dumps({"cells": cells, "nbformat": 4}, indent=1), secret
    if form.startswith("json"):
        for depth in range(int(form[-1])):
            text = json.dumps({"content": [{"type": "text", "text": text}]} if depth % 2 else {"stdout": text})
        return text, secret
    if form == "percent":
        return quote(text, safe=""), quote(secret, safe="")
    if form == "form":
        return f"payload={quote_plus(text)}&x=1", quote_plus(secret)
    if form == "base64":
        data = _encoded(text)
        return f"data: {data}\n", data[len(data) // 2 - 8 : len(data) // 2 + 8]
    return repr({"out": text, "n": 1}), secret


@cache
def templates() -> tuple[tuple[str, str, str], ...]:
    """Kind, template, form."""
    rows = (json.loads(line) for line in TEMPLATES.read_text(encoding="utf-8").splitlines())
    return tuple((kind, template, *form, "")[:3] for kind, template, *form in rows)


def texts(random: Random) -> Iterator[tuple[str, str, str]]:
    """Every template once; a text with two secrets counts once for each."""
    for kind, template, form in templates():
        text, secrets = _filled(random, template)
        for secret in secrets:
            made, shown = encoded(text, secret, form) if form else (text, secret)
            yield kind, shown, made


def listed(random: Random) -> Iterator[tuple[str, str, str]]:
    """Texts of several lines as agents and tools list files: with line numbers."""
    for kind, template, form in templates():
        text, secrets = _filled(random, template)
        if form or not secrets or "\n" not in text.rstrip("\n"):
            continue
        for style in ("{n:6}→{line}", "{n:6}\t{line}", "{n}:{line}", "{n:4} | {line}"):
            lines = text.rstrip("\n").split("\n")
            yield (
                f"{kind}, listed",
                secrets[0],
                "\n".join(style.format(n=n, line=one) for n, one in enumerate(lines, 1)),
            )
