"""Translates the CLI commands and flags in error hints to HTTP requests and body members.

A hint whose command has no route is reported as a command to run on the server's machine (`commands` of a problem
document).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

_COMMAND: Final = re.compile(r"(?:(?<=^)|(?<=[\s(:]))relight [a-z][a-z-]*(?: [^\s,;|()]+)*")
_FLAG: Final = re.compile(r"(?<![\w-])--([a-z][a-z-]*)")
_MEMBERS: Final = {
    "theirs": '"choice": "theirs"',
    "ours": '"choice": "ours"',
    "force": '"choice": "force"',
    "conversation": '"scope": "conversation"',
    "files": '"scope": "files"',
    "both": '"scope": "both"',
    "restore": '"restore": true',
    "from-last-good": '"from_last_good": true',
    "without-secrets": '"without_secrets": true',
    "now": '"now": true',
    "retry": '"retry": true',
    "exact": '"exact": true',
    "with-forks": "?with_forks=true",
    "with-children": "?with_children=true",
    "forget-native": '"forget_native": true',
    "result": '"result"',
    "queue": '"queue"',
    "name": '"name"',
    "workspace": '"workspace"',
    "in-place": '"in_place": true',
    "budget": '"budget"',
    "budget-tokens": '"budget_tokens"',
    "time-limit": '"time_limit"',
    "env": '"env"',
    "secret": '"secrets"',
    "library": '"library": true',
}
"""CLI flag -> member of the request body or query"""
_POSTS: Final = ("resume", "fork", "rewind", "restore", "undo", "stop", "send", "approve", "deny", "archive", "clear")
_GETS: Final = {
    "show": "",
    "checkpoints": "/checkpoints",
    "tail": "/events",
    "can-resume": "/can-resume",
    "diff": "/diff",
}


class HttpHints(NamedTuple):
    """The hints of an error, for an API client."""

    hints: tuple[str, ...]
    commands: tuple[str, ...]
    """CLI commands that no route can replace"""


def http_hints(hints: Iterable[str]) -> HttpHints:
    """Translate each hint; those that cannot be translated become commands."""
    translated: list[str] = []
    commands: list[str] = []
    for hint in hints:
        text = http_text(hint)
        (translated if text is not None else commands).append(text if text is not None else hint)
    return HttpHints(tuple(translated), tuple(commands))


def http_text(text: str) -> str | None:
    """The text with CLI commands and flags translated; None if one of them has no equivalent over HTTP."""
    out, end = [], 0
    for found in _COMMAND.finditer(text):
        request = _request(found[0])
        if request is None:
            return None
        out += [text[end : found.start()], request]
        end = found.end()
    rest = "".join([*out, text[end:]])
    unknown = [name for name in _FLAG.findall(rest) if name not in _MEMBERS]
    return None if unknown else _FLAG.sub(lambda flag: _MEMBERS[flag[1]], rest)


def without_flags(text: str) -> str:
    """The text with each `--some-flag` replaced by `some flag`."""
    return _FLAG.sub(lambda flag: flag[1].replace("-", " "), text)


def _request(command: str) -> str | None:
    """The HTTP request equivalent to a command; None if there is none."""
    try:
        _, verb, *words = shlex.split(command)
    except ValueError:
        return None
    flags = [word.removeprefix("--") for word in words if word.startswith("--")]
    plain = [word for word in words if not word.startswith("-")]
    make = _REQUESTS.get(verb)
    return make(plain, flags) if make is not None else None


def _posts(verb: str) -> Callable[[Sequence[str], Sequence[str]], str | None]:
    def make(plain: Sequence[str], flags: Sequence[str]) -> str | None:
        if verb == "resume" and "dry-run" in flags:
            return f"GET /api/sessions/{_ref(plain)}/can-resume"
        if verb == "resume" and "accept-repository" in flags:
            return f"POST /api/sessions/{_ref(plain)}/accept-repository"
        if any(flag not in _MEMBERS for flag in flags):
            return None
        body = ", ".join(_MEMBERS[flag] for flag in flags)
        return f"POST /api/sessions/{_ref(plain)}/{verb}" + (f" {{{body}}}" if body else "")

    return make


def _gets(rest: str) -> Callable[[Sequence[str], Sequence[str]], str | None]:
    return lambda plain, flags: f"GET /api/sessions/{_ref(plain)}{rest}"


def _settle(plain: Sequence[str], flags: Sequence[str]) -> str | None:
    call = plain[1] if len(plain) > 1 else "CALL"
    body = '"retry": true' if "retry" in flags else '"result": ...'
    return f'POST /api/sessions/{_ref(plain)}/settle {{"call": "{call}", {body}}}'


def _token(plain: Sequence[str], flags: Sequence[str]) -> str | None:
    if plain[:1] == ["add"]:
        return f'POST /api/tokens {{"name": "{_word(plain, 1)}", "scope": "{_word(plain, 2)}"}}'
    if plain[:1] == ["revoke"]:
        return f"DELETE /api/tokens/{_word(plain, 1)}"
    return "GET /api/tokens"


def _rm(plain: Sequence[str], flags: Sequence[str]) -> str | None:
    asked = "&".join(f"{one.replace('-', '_')}=true" for one in ("with-forks", "with-children") if one in flags)
    return f"DELETE /api/sessions/{_ref(plain)}" + (f"?{asked}" if asked else "")


def _sweep(plain: Sequence[str], flags: Sequence[str]) -> str | None:
    if "set" in flags:
        return f'POST /api/retention {{"retention": "{_word(plain, 0)}"}}'
    return "GET /api/sweep" if "dry-run" in flags else "POST /api/sweep"


def _unpause(plain: Sequence[str], flags: Sequence[str]) -> str | None:
    return "POST /api/unpause"


def _ref(plain: Sequence[str]) -> str:
    return _word(plain, 0) if plain else "{ref}"


def _word(plain: Sequence[str], index: int) -> str:
    return plain[index] if len(plain) > index else "..."


_REQUESTS: Final[dict[str, Callable[[Sequence[str], Sequence[str]], str | None]]] = {
    **{verb: _posts(verb) for verb in _POSTS},
    **{verb: _gets(rest) for verb, rest in _GETS.items()},
    "settle": _settle,
    "unpause": _unpause,
    "token": _token,
    "rm": _rm,
    "sweep": _sweep,
    "list": lambda plain, flags: "GET /api/sessions",
    "label": lambda plain, flags: f'POST /api/checkpoints/{_ref(plain)}/label {{"label": "{_word(plain, 1)}"}}',
    "queue": lambda plain, flags: "GET /api/queues" if plain[:1] == ["list"] else None,
}
