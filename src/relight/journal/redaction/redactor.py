"""The redactor: a value or text without its secrets, before it is written anywhere.

In this order: values known from the environment, tokens of a recognisable type, values announced by a name, tokens that
look random. The replacement says what it was: `[redacted:ANTHROPIC_API_KEY]`, `[redacted:github-token]`. Idempotent.

A false positive would break the agent, so in a member that is an identifier or a checksum only certain secrets are
replaced (a known value, a token of a recognisable type), and a signature, an encrypted text or an image is never
touched. Signed thinking cannot be changed without breaking its signature: if it holds a secret, the whole block is
replaced by a text block `[redacted:thinking]`. A value without secrets is returned as the same object, after one scan
of all its texts joined.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Literal

from relight.journal.redaction.secrets import (
    apart,
    assigned,
    columns,
    commands,
    entropy,
    hidden,
    members,
    pem,
    prose,
    tools,
    typed,
)
from relight.journal.redaction.secrets.exact import MIN_CHARS, ExactValues, secret_names
from relight.journal.redaction.secrets.lazy_pattern import lazy_pattern
from relight.journal.redaction.secrets.spans import OPENING, Span, lowered, mark, replaced

__all__ = ["Redactor", "secret_names"]

_ANNOUNCED: Final = (commands.spans, tools.spans, prose.spans, assigned.spans, apart.spans, columns.spans)
"""by what stands around a secret"""
_ROUNDS: Final = 8
"""repeat until nothing is found; one round is nearly always enough"""
_KINDS: Final = " ".join(
    mark(name)
    for name in (
        *(rule.name for rule in typed.RULES),
        "private-key",
        "password",
        "high-entropy",
        "thinking",
        *assigned.NEEDS,
    )
)
_UNTOUCHED: Final = lazy_pattern(r"(?i)(?:^|_|-)signature$|^encrypted_content$|^b64_json$|^thoughtsignature$")
_IDENTIFIER: Final = lazy_pattern(
    r"(?i)(?:^|_|-)(?:id|ids|uuid|uuids|sha|sha\d{1,3}|hash|digest|checksum|integrity|etag|fingerprint|cursor"
    r"|rev|commit)$|^media_type$|^mime_?type$|^image_url$|^ordinal$|^timestamp$"
)
_IDENTIFIER_CAMEL: Final = lazy_pattern(r"(?:Id|Ids|ID|Uuid|UUID|Hash|Digest|Sha|Etag|Cursor)$")
_MARK: Final = lazy_pattern(re.escape(OPENING) + r"([^\]]*)\]")
_BINARY: Final = frozenset({"media_type", "mime_type", "mimeType", "mediaType"})
_BETWEEN: Final = "\0\n"
"""separator of joined texts that no pattern can match across"""
_UNSIGNED: Final = {"type": "text", "text": mark("thinking")}
"""replacement for thinking that held a secret"""
_CAN_MATTER: Final = 4
"""shorter texts cannot hold a secret"""


class Redactor:
    """Knows the secrets of one environment. Cheap to call, immutable, thread-safe."""

    def __init__(self, secrets: Mapping[str, str] | None = None) -> None:
        """`secrets`: name to value; `{name: os.environ[name] for name in secret_names(os.environ)}`."""
        known = dict(secrets or {})
        self._exact = ExactValues(known, " ".join((_KINDS, *map(mark, known))))

    def text(self, text: str) -> str:
        """The text without secrets; the same object if there are none."""
        if hidden.ESCAPE in text:
            text = hidden.without_colours(text, self._text)
        return self._text(text)

    def _text(self, text: str) -> str:
        for _ in range(_ROUNDS):
            after = self._once(text)
            if after == text:
                break
            text = after
        return text

    def value(self, value: Any) -> Any:
        """Any JSON without secrets, keys included; the same object if there are none. The argument is not changed."""
        if type(value) is str:
            return self.text(value)
        if type(value) not in (dict, list, tuple):
            return value
        texts: list[str] = []
        named = _gather(value, texts)
        # Nearly every value is clean, and one scan of all texts joined is far cheaper than one scan per text. Only a
        # hit pays for the second, exact pass.
        together = _BETWEEN.join(texts)
        if not named and hidden.ESCAPE not in together and self._once(together) is together:
            return value
        return _rebuilt(value, self.text, self._strict)

    @property
    def signs(self) -> frozenset[str]:
        """Every name in which `secret_in` finds something contains one of these."""
        return self._exact.values | {need for rule in typed.RULES if not rule.any_case for need in rule.needs}

    def secret_in(self, name: str) -> str | None:
        """The kind of secret that a name certainly holds: a known value, or a token of a recognisable type."""
        if OPENING in name or (strict := self._strict(name)) == name:
            return None
        found = _MARK.search(strict)
        return found[1] if found is not None else None

    def _strict(self, text: str) -> str:
        text = self._exact.without(text)
        return replaced(text, typed.spans(text, typed.applying("", text)))

    def _once(self, text: str) -> str:
        if len(text) < _CAN_MATTER:
            return text
        after = self._exact.without(text)
        words = typed.long_words(after)
        if pem.NEED in after or words:
            after = replaced(after, pem.spans(after))
        lower = lowered(after)
        rules = typed.applying(lower, " ".join(words))
        if rules:
            after = replaced(after, typed.spans(after, rules))
            lower = lowered(after)
        for find in _ANNOUNCED:
            found = replaced(after, find(after, lower))
            if found is not after:
                after, lower = found, lowered(found)
        after = replaced(after, hidden.listed(after, _announced))
        after = replaced(after, hidden.nested(after, _announced))
        after = replaced(after, hidden.percent_encoded(after, _announced))
        if any(len(word) >= entropy.MIN_CHARS for word in words):
            after = replaced(after, entropy.spans(after))
            after = replaced(after, hidden.encoded(after, _announced))
        return after


def _announced(text: str) -> Iterator[Span]:
    """Secrets that their type or a name betrays: what is looked for in a decoded text."""
    lower = lowered(text)
    yield from typed.spans(text, typed.applying(lower, " ".join(typed.long_words(text))))
    for find in _ANNOUNCED:
        yield from find(text, lower)


@lru_cache(maxsize=2048)
def _care(key: str) -> Literal["text", "identifier", "untouched"]:
    """How cautiously a member of this name may be redacted."""
    if _UNTOUCHED.search(key) is not None:
        return "untouched"
    is_identifier = _IDENTIFIER.search(key) is not None or _IDENTIFIER_CAMEL.search(key) is not None
    return "identifier" if is_identifier else "text"


def _is_binary(item: dict[str, Any]) -> bool:
    """An image or document in base64, or encrypted thinking: its `data` is not text."""
    if item.get("type") in ("base64", "redacted_thinking", "image", "input_audio"):
        return True
    return any(not str(item[name]).startswith("text/") for name in _BINARY if name in item)


def _is_signed(item: dict[str, Any]) -> bool:
    """Thinking with its signature: the provider refuses the conversation if a single character changes."""
    return item.get("type") == "thinking" and bool(item.get("signature"))


def _gather(value: Any, texts: list[str]) -> bool:
    """Collect every text that may be redacted; returns whether a key announces a secret or might be one."""
    stack, named = [value], False
    while stack:
        item = stack.pop()
        if type(item) is dict:
            binary = "data" in item and _is_binary(item)
            named = named or members.named_member(item) is not None
            for key, inner in item.items():
                if len(key) >= MIN_CHARS:
                    texts.append(key)
                kind = type(inner)
                if kind is str:
                    if _care(key) != "untouched" and not (binary and key == "data"):
                        texts.append(inner)
                        named = named or assigned.kind_of_key(key) is not None
                elif kind is dict or kind is list or kind is tuple:
                    stack.append(inner)
                    named = named or members.kind_within(key, inner) is not None
        else:
            named = named or members.may_announce(item)
            for inner in item:
                kind = type(inner)
                if kind is str:
                    texts.append(inner)
                elif kind is dict or kind is list or kind is tuple:
                    stack.append(inner)
    return named


def _rebuilt(value: Any, text: Callable[[str], str], key_text: Callable[[str], str]) -> Any:
    """A copy with every text passed through `text`, sharing what did not change. Bottom-up and without recursion, so
    that no nesting can exhaust the stack."""
    order: list[Any] = []
    stack = [value]
    while stack:
        item = stack.pop()
        order.append(item)
        within = item.values() if type(item) is dict else item
        stack.extend(inner for inner in within if type(inner) in (dict, list, tuple))
    done: dict[int, Any] = {}
    for item in reversed(order):
        if type(item) is dict:
            after = _dict(item, done, text, key_text)
            done[id(item)] = dict(_UNSIGNED) if after is not item and _is_signed(item) else after
        else:
            done[id(item)] = _list(item, done, text)
    return done[id(value)]


def _dict(
    item: dict[str, Any], done: dict[int, Any], text: Callable[[str], str], key_text: Callable[[str], str]
) -> dict[str, Any]:
    binary = "data" in item and _is_binary(item)
    after: dict[str, Any] = {}
    changed = False
    for key, inner in item.items():
        new_key, new = key_text(key), inner
        if type(inner) is str:
            care = _care(key)
            if care == "identifier":
                new = key_text(inner)
            elif care == "text" and not (binary and key == "data"):
                kind = assigned.kind_of_key(key)
                new = mark(kind) if kind is not None and assigned.is_member_secret(kind, inner) else text(inner)
                if kind is not None and new != inner:
                    found = text(inner)  # the value's own type is a better name than its key, if it has one
                    new = found if found != inner else new
        elif type(inner) in (dict, list, tuple):
            new = done[id(inner)]
            if (within := members.kind_within(key, inner)) is not None:
                new = _without_members(within, new)
        changed = changed or new is not inner or new_key != key
        # Two secret keys may be redacted to the same text; neither value may be lost.
        after[_free(after, new_key) if new_key != key else new_key] = new
    pair = members.named_member(after)
    if pair is not None:
        after[pair[0]], changed = mark(pair[1]), True
    return after if changed else item


def _without_members(kind: str, inner: Any) -> Any:
    """A list or an object without the texts that are the secrets its key announces; the same object if there are
    none."""
    if type(inner) is dict:
        found = {key: mark(kind) for key, value in inner.items() if members.is_secret_within(kind, value)}
        return {**inner, **found} if found else inner
    if not any(members.is_secret_within(kind, value) for value in inner):
        return inner
    return [mark(kind) if members.is_secret_within(kind, value) else value for value in inner]


def _free(taken: dict[str, Any], key: str) -> str:
    number, free = 2, key
    while free in taken:
        number, free = number + 1, f"{key}#{number}"
    return free


def _list(item: Any, done: dict[int, Any], text: Callable[[str], str]) -> Any:
    after = [
        text(inner) if type(inner) is str else done[id(inner)] if type(inner) in (dict, list, tuple) else inner
        for inner in item
    ]
    if members.may_announce(after):
        for index, clean in members.announced(after, text, mark):
            after[index] = clean
    if all(new is old for new, old in zip(after, item, strict=True)):
        return item
    return after
