"""Passwords written down for people: `the password is …`, `Password for ada: …`, `**Password:** …`.

In a sentence nearly every word behind `password` is an ordinary one, so the value must look like a password: letters
together with digits or signs, and not the name of an encoding, an algorithm or a file.
"""

# ruff: noqa: E501 - a table of patterns
from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from relight.journal.redaction.secrets.lazy_pattern import lazy_pattern
from relight.journal.redaction.secrets.spans import OPENING, Span
from relight.journal.redaction.secrets.typed import is_placeholder

_NEEDS: Final = ("pass", "pwd", "pw:", "pw ")
_FOREIGN: Final = (
    "mot de passe",
    "contraseña",
    "senha",
    "kennwort",
    "wachtwoord",
    "hasło",
    "heslo",
    "密码",
    "パスワード",
)
_LOGINS: Final = ("login", "credential", "creds")
_SAID: Final = lazy_pattern(
    r"(?i)(?<![\w$.-])(?:pass(?:word|wort|phrase|code|wd)?|pw)[*_`]{0,3}(?:[ ](?:for|of|on|to)[ ][^\n:=]{1,60}?)?"
    r"(?:(?P<told>[*_`]{0,2}[ ]{0,2}[:=][*_`]{0,2}[ \t]{1,8}|[ ](?:is|was|=|->|set to|will be)[ ]{1,2}(?:now[ ])?)|[ ]{1,2})"
    r"[`\"'*]{0,3}(?P<value>[^\s`\"'<>]{5,256})"
)
_SETTING: Final = lazy_pattern(
    r"(?im)^[ \t>|+-]{0,24}(?:[\w-]{1,24}[_.-])?(?:password|passwd|passphrase|pass|pwd|pw)[ \t]{0,2}[:=][ \t]{0,3}(?P<quote>[\"']?)"
    r"(?P<value>[^\s\"'#,;{}()\[\]<>$]{5,256})(?P=quote)[ \t]{0,4}(?:#[^\n]{0,200})?\r?$"
)
_BESIDE: Final = lazy_pattern(
    r"(?im)^[ \t>|+-]{0,24}(?:[\w-]{1,24}[_.-])?(?:user|username|user_?id|login|email|host|hostname|database|dbname|port|url)"
    r"[ \t]{0,2}[:=][ \t]{0,3}[\"']?(?!str\b|string\b|int\b|bytes\b|any\b)[\w.@:/-]{2,100}[\"']?[ \t]{0,4}(?:#[^\n]{0,200})?\r?$"
)
_ANNOUNCED: Final = lazy_pattern(
    r"(?im)\bpassword\b[^\n=;{}]{0,120}?:(?:[ \t]{1,4}|(?:[ \t]{0,4}\r?\n){1,3}[ \t]{0,8})(?P<value>[^\s`\"'<>]{8,128})[ \t]{0,4}\r?$"
)
_CHANGED: Final = lazy_pattern(
    r"(?i)\bpassword[ ](?:(?:was|is|has[ ]been)[ ])?(?:(?:changed|set|reset|rotated|updated)[ ])?to[ ]+[`\"'*]{0,3}(?P<value>[^\s`\"'<>]{6,128})"
)
_LOGIN: Final = lazy_pattern(
    r"(?i)\b(?:login|log[ ]in|credentials?|creds)(?:[ ](?:is|are|with))?[ ]?[:=]?[ ]{1,3}[`\"']?[\w.@-]{2,64}[`\"']?[ ]?[/:|][ ]?[`\"']?(?P<value>[^\s`\"'<>/:]{6,128})"
)
_TRANSLATED: Final = lazy_pattern(
    rf"(?i)(?:{'|'.join(_FOREIGN)})[ ]?[:=：][ ]{{0,3}}[`\"']?(?P<value>[^\s`\"'<>]{{6,128}})"
)
_DECLARED: Final = lazy_pattern(r"[ ]{0,2}=[ ]{0,2}[\w\"'(\[{]")
_TYPES: Final = frozenset({
    "string", "bytes", "required", "optional", "false", "secretstr", "unset", "integer", "number", "object", "varchar",
    "plain", "hidden", "prompt", "input", "nullable", "password", "secret", "example", "default", "empty", "value",
})  # fmt: skip
_PLAIN: Final = lazy_pattern(
    r"(?i)[a-z]+(?:['’][a-z]+)?$|\d[\d.,:/%-]*$|\d+[- ]?(?:bit|bytes?|chars?|characters?|times?|days?|st|nd|rd|th)\b|(?:utf|sha|md|aes|base|iso|latin"
    r"|rfc|pkcs|x|v|p|pbkdf|scrypt|argon|bcrypt|ascii|cp|rsa|hmac|win|ntlm|oauth|http|python|py|mysql|sql|level|step|type|option|field|arg|param|var"
    r"|value|user|test|example|pass|pass_?word|pwd|pw|str|secret|line|key|name)[-_#]?\d[\w.#-]*$|https?:"
    r"|[\w-]+\.(?:py|txt|json|md|html?|com|org|net|yaml|toml|ini|cfg|sh|js|ts|c|h)$"
)
_NAME: Final = lazy_pattern(r"[\w.]+[(\[]|[\w.]*\w\.\w[\w.]*$|-{1,2}\w|\$|%|\{|\[|@|/|\\|[a-z]+_[a-z_]+\d?$")
_PHRASE: Final = lazy_pattern(r"[a-z]{4,12}(?:-[a-z]{4,12}){2,7}$")
_SIGNS: Final = frozenset("!#%^&*+?~@$")
_DIGITS: Final = 2
_LINES: Final = 160
"""characters before and after a setting that are searched for its neighbours"""


def spans(text: str, lower: str) -> Iterator[Span]:
    """Passwords in prose, and settings named so beside a user or a host."""
    for needs, pattern in (
        (("password",), _ANNOUNCED),
        (("password ",), _CHANGED),
        (_LOGINS, _LOGIN),
        (_FOREIGN, _TRANSLATED),
    ):
        if any(need in lower for need in needs):
            yield from _told(text, pattern)
    if any(need in lower for need in _NEEDS):
        yield from _said(text)


def _told(text: str, pattern: re.Pattern[str]) -> Iterator[Span]:
    """Values that a sentence announces: generated ones, for any word may stand there."""
    for found in pattern.finditer(text):
        value = found["value"].rstrip(".,;:)]}*")
        if _is_shown(value) and looks_chosen(value, told=False) and sum(map(str.isdigit, value)) >= _DIGITS:
            yield found.start("value"), found.start("value") + len(value), "password"


def _said(text: str) -> Iterator[Span]:
    for found in _SAID.finditer(text):
        value = found["value"].rstrip(".,;:)]}*")
        is_told = found["told"] is not None
        if not is_told and found[0][:5].lower() in ("pass ", "pass`"):
            continue  # to pass something
        if _DECLARED.match(text, found.end("value")):
            continue  # an annotated parameter with its default
        if _is_shown(value) and looks_chosen(value, told=is_told):
            yield found.start("value"), found.start("value") + len(value), "password"
    for found in _SETTING.finditer(text):
        value = found["value"]
        if _is_shown(value) and value.lower() not in _TYPES and not _NAME.match(value) and _is_beside(text, found):
            yield found.start("value"), found.end("value"), "password"


def _is_shown(value: str) -> bool:
    return OPENING[1:] not in value and not is_placeholder(value)


def _is_beside(text: str, found: re.Match[str]) -> bool:
    """Whether a neighbouring line names a user or a host: then it is an account's setting, not code."""
    around = text[max(0, found.start() - _LINES) : found.start()], text[found.end() : found.end() + _LINES]
    return any(_BESIDE.search(one) for one in around)


def looks_chosen(value: str, *, told: bool) -> bool:
    """Whether a word was chosen or generated as a password, and is not a word of a sentence or of code. `told`: the
    text says explicitly that it is the password."""
    if len(value) < 6 or len(set(value)) < 4 or _NAME.match(value):
        return False
    if value.isalpha() and told:
        return sum(one.isupper() != other.isupper() for one, other in pairwise(value)) >= 0.4 * len(value)
    if _PLAIN.match(value):
        return False
    if _PHRASE.match(value):
        return told
    letters = sum(map(str.isalpha, value))
    digits = sum(map(str.isdigit, value))
    signs = sum(one in _SIGNS for one in value[1:])
    if letters < 2 or (digits == 0 and signs == 0):
        return False
    if value.isalnum() and not told:
        return digits >= 2 and len(value) >= 8
    return digits >= 1 or signs >= 1
