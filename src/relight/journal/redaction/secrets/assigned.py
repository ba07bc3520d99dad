"""Secrets announced by a name: `password=…`, `"api_key": "…"`, `--token …`, `ENV NAME …`, and JSON members of such
names.

A password may look like anything, so its name alone decides, unless the value is a placeholder or a piece of code. A
token or key must look like one too: `token: str` and `next_token = take()` are code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final

from relight.journal.redaction.secrets.lazy_pattern import lazy_pattern
from relight.journal.redaction.secrets.spans import OPENING, Span
from relight.journal.redaction.secrets.typed import is_placeholder

NEEDS: Final = (
    *("passw", "passphrase", "pwd", "pass", "_pw", "secret", "token", "key", "credential", "cookie", "auth", "dsn"),
    *("_pat", "-pat"),
    *("webhook", "mnemonic", "seed", "otp", "connectionstring", "connection_string", "jwt", "session"),
)
"""in lower case; the name of every assigned secret contains one of them"""
_PASSWORDS: Final = frozenset({"passw", "passphrase", "pwd", "pass", "_pw"})
_STRICT: Final = frozenset({"auth", "webhook", "seed", "otp", "session", "cookie", "jwt", "dsn"})
"""names with other uses too: only values that look random are redacted"""
_KEYS: Final = lazy_pattern(
    r"(?i)(?:api|access|auth|private|signing|encryption|master|account|service|shared|secret|license|storage|primary"
    r"|secondary|app|application|client|consumer|deploy|integration|admin|server|webhook|hmac|jwt|aes|fernet|session|ssh"
    r"|subscription|write|read|ingest|project|org|user|bot|root|host|function|sas|accesskey|dd|x-api|x-functions)[_.-]?$"
)
_NAME_END: Final = lazy_pattern(
    r"""[A-Za-z0-9_.-]{0,40}(?P<quote>\\{0,4}["'])?\]?"""
    r"""(?:(?::\s{0,2}(?:str|bytes|string|String|SecretStr|Final(?:\[\w{1,12}\])?|str \| None)(?=\s{0,3}=))?"""
    r"""(?:\s{0,3}|[ \t]{4,32})(?P<sign>=>|:=|===?|[=:])(?:\s{0,3}|[ \t]{4,32})"""
    r"""(?:(?:os\.(?:environ\.get|getenv)\(|process\.env\.\w{1,64}\s?(?:\|\||\?\?)\s?)(?:[\"'][^\"'\n]{1,80}[\"'],\s{0,3})?"""
    r"""|bytes(?:\.fromhex)?\(|SecretStr\(|b64decode\()?(?:[bBrRuU]{1,2}(?=\\{0,4}[\"']))?"""
    r"""|(?P<space>[ \t]{1,3})|(?P<tag>[^<>\n]{0,60}>))"""
    r"""(?:(?P<open>\\{0,4}["'`])(?P<quoted>[^"'`\\\n]{4,4096})(?P<close>["'`\\])|(?P<bare>[^\s"'`\\,;<>()\[\]{}|]{4,384}))"""
)
_KEY: Final = lazy_pattern(
    r"(?i)(?:password|passwd|passphrase|^pwd|^pass|_pass|_pwd|_pw)$|(?:secret|secret[_-]?key|(?:api|access|auth|private|signing|encryption|master"
    r"|account|client|shared|storage|license|app|admin|session|hmac)[_-]?key|apikey|(?:access|auth|refresh|bearer|api|id|session|csrf|bot"
    r"|personal|security|private|deploy|vault|x-vault)[_-]?token|^token|_token|token$|credentials?|authorization|^cookie|set-cookie|connection_?string"
    r"|client-key-data|private_key_pem|_authtoken|webhook_?url|mnemonic|seed_?phrase|^dsn|_dsn|otp_?secret|^pin$|secret_?(?:id|value|string|text)"
    r"|sas_?token|access_?key_?secret|secret_?access_?key)$"
)
_PASSWORD_KEY: Final = lazy_pattern(
    r"(?i)passw(?:or)?d$|passphrase$|^pwd$|^pass$|_pass$|_pwd$|_pw$|^pin$|mnemonic$|seed_?phrase$"
)
_CODE: Final = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*[?!.]?")
_CALL: Final = lazy_pattern(r"[A-Za-z_][\w.]*(?:\(|\[|::|->|\.[A-Za-z_]+\b(?![\w+/=-]*\d))")
_DATE: Final = lazy_pattern(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_UUID: Final = lazy_pattern(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MIN_TOKEN: Final = 12
_MIXED: Final = 20
"""so many letters of both cases, mixed at random, need one digit only"""
_SETTING: Final = 80
"""so far before the end of its name a line of settings begins"""
_DIGITS_APART: Final = 3
"""in so many places; names in code have digits at their end"""
_SENTENCE: Final = lazy_pattern(r"[A-Za-z-]+[.!?:,]?")
_ARN: Final = lazy_pattern(r"arn:[\w-]{2,12}:[\w:/*.-]{0,160}$")
_CONSTANT: Final = lazy_pattern(r"[0-9]{1,6}")
_PATH: Final = lazy_pattern(r"(?:~|\.{1,2})?/[\w.@/-]*$|[A-Za-z]:\\")


def spans(text: str, lower: str) -> Iterator[Span]:
    """Values behind a telling name in this text."""
    for need in NEEDS:
        offset = lower.find(need)
        while offset >= 0:
            end = offset + len(need)
            found = _NAME_END.match(text, end)
            if found is not None and (span := _judged(text, offset, need, found)) is not None:
                yield span
            offset = lower.find(need, end)


def _judged(text: str, offset: int, need: str, found: re.Match[str]) -> Span | None:
    which = "quoted" if found["quoted"] is not None else "bare"
    value, start, end = found[which], found.start(which), found.end(which)
    name = _name_before(text, offset) + text[offset : found.start("sign") if found["sign"] else offset + len(need)]
    if _ARN.search(text, max(0, offset - 200), offset) or text.startswith("arn:", start):
        return None  # the name of a service, or of a secret
    if text[max(0, offset - 200) : offset].rpartition('"')[2].count("::"):
        return None  # the name of a type
    if need in ("_pat", "-pat") and (
        text[offset + 4 : offset + 5].isalpha() or not _is_random(value) or value.startswith("[")
    ):
        return None  # a path, a pattern
    if need == "auth" and re.match(r"(?i)or(?!iz)", text[offset + 4 : offset + 8]):
        return None  # the author
    if need in _STRICT and text.startswith(("http", "arn:"), found.start("quoted" if found["quoted"] else "bare")):
        return None
    if need == "key" and not _KEYS.search(text, max(0, offset - 16), offset) and not _is_variable(name):
        return None
    if need == "_pw" and text[offset + 3 : offset + 4].isalnum():
        return None  # the beginning of a longer word
    if need == "pass" and not re.search(r"(?i)(?:^|[_.-])pass$|userpass$|dbpass$", name.strip("\"' ")):
        return None
    if which == "bare":
        value, end = _trimmed(text, value, start, found, name)
    if found["tag"] is not None and not (found["tag"] == ">" and text.startswith("</", end)):
        return None
    if found["space"] is not None and not _is_option(text, offset, name, value):
        return None
    if OPENING in value or value.startswith(OPENING[1:]) or is_placeholder(value) or len(value) < 4:
        return None
    if len(set(value)) < 3 or value.startswith(":") or _DATE.match(value) or _PATH.match(value):
        return None
    is_password = need in _PASSWORDS or need == "mnemonic"
    if which == "quoted":
        good = _is_quoted_secret(value, is_password=is_password)
    else:
        good = _is_bare_secret(name, found, value, is_password=is_password)
    if not good or (need in _STRICT and not looks_strict(value)):
        return None
    return start, end, "password" if is_password else need.strip("_-")


def _name_before(text: str, offset: int) -> str:
    before = text[max(0, offset - 40) : offset]
    found = re.search(r"[A-Za-z0-9_.$-]*$", before)
    return found[0] if found is not None else ""


def _is_variable(name: str) -> bool:
    """Whether it is the name of an environment variable, like `STRIPE_KEY`."""
    return re.fullmatch(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_?KEY[A-Z0-9_]*", name.strip()) is not None and "_" in name


def _trimmed(text: str, value: str, start: int, found: re.Match[str], name: str) -> tuple[str, int]:
    """Up to the end of the word in an assignment to a variable; else up to what ends a value in a URL or a list."""
    if found["sign"] == "=" and name.strip("-$").isupper() and "?" not in name:
        whole = re.compile(r"[^\s\"'`]{4,4096}").match(text, start)
        if whole is not None:
            value = whole[0]
    elif "&" in value:
        value = value.partition("&")[0]
    value = value.rstrip(".,;:)]}>")
    return value, start + len(value)


def _is_option(text: str, offset: int, name: str, value: str) -> bool:
    """`--password VALUE`, `ENV PASSWORD VALUE`: with a space in between, only an option or variable is an
    assignment."""
    if _SENTENCE.fullmatch(value) and not any(one.isdigit() for one in value):
        return False
    if name.startswith("--"):
        return True
    line = text[text.rfind("\n", 0, offset) + 1 : offset].lstrip(" \t+->|").lower()
    if line.startswith(("env ", "arg ", "run export ", "setx ")) and name.isupper():
        return True
    return line.startswith(("machine ", "login ", "default ")) or (
        not line and text[:offset].lower().rfind("login ", max(0, offset - 200)) >= 0
    )


def _is_quoted_secret(value: str, *, is_password: bool) -> bool:
    if any(one.isspace() for one in value):
        words = value.split()
        if not is_password or len(value) > 200 or value != value.strip():
            return False
        return len(words) <= 24 and (
            any(one.isdigit() for one in value) or (len(words) in (12, 15, 18, 21, 24) and value.islower())
        )
    if is_password:
        return not (_CALL.match(value) or re.fullmatch(r"[a-z]+(?:[_. -][a-z]+)+", value) or _is_word(value))
    return looks_like_token(value)


def _is_word(value: str) -> bool:
    """One plain word, such as a label or a type: `password: 'required'`."""
    return (re.fullmatch(r"[A-Z]?[a-z]+(?:[A-Z][a-z]+){0,4}", value) is not None and not value.islower()) or value in (
        "required", "text", "password", "string", "optional", "field", "hidden", "input", "varchar", "char", "str",
    )  # fmt: skip


def _is_bare_secret(name: str, found: re.Match[str], value: str, *, is_password: bool) -> bool:
    """Without quotes it may be a variable, a type or a word of a sentence. `NAME=value` and `--name value` assign,
    `name = value` is code."""
    name = name.strip()
    has_digit = any(map(str.isdigit, value))
    assigns = (
        found["sign"] == "="
        and "=" + value[:1] in found[0].replace(" ", " ")
        and not re.search(r"\s=|=\s", found[0][: found[0].find(value)])
    )
    if found["space"] is not None:
        return is_password or looks_like_token(value)
    if found["tag"] is not None:
        return (is_password and has_digit) or looks_like_token(value)
    if assigns and name.strip("-$").isupper() and len(name) > 3:
        return (is_password or looks_like_token(value) or (len(value) >= 8 and has_digit)) and not _CALL.match(value)
    if _CALL.match(value) or (found["sign"] == "=" and not assigns and _CONSTANT.fullmatch(value)):
        return False
    if _CODE.fullmatch(value):
        letters = value.rstrip("0123456789")
        if (
            not has_digit
            or "." in value
            or letters.lower().endswith(("password", "passwd", "token", "key", "secret", "pwd"))
        ):
            return False
        if not assigns and found["sign"] != ":":
            return found["sign"] == "=" and _is_setting(found, name, value)
        if found["sign"] == ":" and not _ends_line(found):
            return False
        return (
            (len(value) >= 6 and len(value) - len(letters) != len(value))
            if is_password
            else looks_like_token(value) and _is_random(value)
        )
    if is_password:
        return (
            not _SENTENCE.fullmatch(value)
            and not re.fullmatch(r"[a-z]+(?:[-_/][a-z]+)*", value)
            and (has_digit or (assigns and not value.isalpha() and len(value) >= 8))
        )
    return looks_like_token(value)


def _is_setting(found: re.Match[str], name: str, value: str) -> bool:
    """A line `name = value` of a settings file, whose value no program would have as a name."""
    before = found.string[max(0, found.start() - _SETTING) : found.start()]
    line = before.rpartition("\n")[2].strip(" \t>|+-")
    if "." in name or not name.startswith(line) or not _ends_line(found) or not _is_random(value):
        return False
    return looks_like_token(value) and len(re.findall(r"\d+", value)) >= _DIGITS_APART


def _ends_line(found: re.Match[str]) -> bool:
    after = found.string[found.end() : found.end() + 2]
    return not after or after[0] in "\r\n" or after[:2] in ("\\n", " #", " \n")


def _is_random(value: str) -> bool:
    changes = sum(
        one.isdigit() != other.isdigit() or one.isupper() != other.isupper() for one, other in pairwise(value)
    )
    return changes >= 3 and len(set(value)) >= 8


def looks_strict(value: str) -> bool:
    """Long, random, and neither a uuid nor a number: what a name with other uses too needs for its value."""
    if _UUID.fullmatch(value):
        return False
    return len(value) >= 16 and looks_like_token(value) and _is_random(value) and not re.match(r"\d[\d.:-]*$", value)


def looks_like_token(value: str) -> bool:
    """Long enough, of more than one class of characters, and not joined words."""
    if len(value) < _MIN_TOKEN:
        return False
    digits = sum(map(str.isdigit, value))
    if digits < 1 or (digits < 2 and not (len(value) >= _MIXED and _case_changes(value) >= len(value) // 3)):
        return False
    return sum(map(str.isalpha, value)) >= 2 and len(set(value)) >= 6 and not any(map(str.isspace, value))


def _case_changes(value: str) -> int:
    return sum(one.isupper() != other.isupper() for one, other in pairwise(value))


def announced_kind(name: str, value: str) -> str | None:
    """The kind of a secret whose name stands apart from it; None if it does not look like what the name announces."""
    kind = kind_of_key(name) or ("token" if _is_variable(name) or name.upper().endswith(("_PAT", "-PAT")) else None)
    if kind is None or not is_member_secret(kind, value) or _CALL.match(value) or _DATE.match(value):
        return None
    chosen = any(map(str.isdigit, value)) and any(map(str.isalpha, value)) and len(set(value)) >= 6
    return kind if (chosen if kind == "password" else _is_random(value)) else None


@lru_cache(maxsize=2048)
def kind_of_key(key: str) -> str | None:
    """What a JSON member of this name holds: password, token, or nothing to hide."""
    if len(key) > 64 or "::" in key or not _KEY.search(key):  # with colons it is the name of a type
        return None
    return "password" if _PASSWORD_KEY.search(key) else "token"


def is_member_secret(kind: str, value: str) -> bool:
    """Whether a text is the secret that its key announces."""
    if not value or OPENING in value or is_placeholder(value) or _PATH.match(value):
        return False
    if kind == "password":
        return len(value) >= 4 and (
            not any(one.isspace() for one in value) or len(value.split()) in (12, 15, 18, 21, 24)
        )
    return looks_like_token(value) and not any(one.isspace() for one in value)
