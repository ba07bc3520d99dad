"""Secrets that show their type: the tokens of well-known services, keys in PEM, headers, addresses with a password.

Each rule names texts that must stand in whatever it can find, and most find only words of some length. Looking for
those texts in the long words first is what makes a clean text cheap. Every pattern has bounds, so that no input makes
it slow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from relight.journal.secrets.spans import OPENING, Span


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One type of secret."""

    name: str
    needs: tuple[str, ...]
    """one of these stands in every text that holds such a secret; lower case where `any_case`"""
    pattern: re.Pattern[str]
    """group 1 is the secret"""
    any_case: bool = False
    """also: what it finds need not be one long word"""


def _rule(name: str, needs: str, pattern: str, *, any_case: bool = False) -> Rule:
    flags = re.ASCII | (re.IGNORECASE if any_case else 0)
    return Rule(name=name, needs=tuple(needs.split()), pattern=re.compile(pattern, flags), any_case=any_case)


_START: Final = r"(?<![A-Za-z0-9])"

RULES: Final = (
    _rule("anthropic-key", "sk-ant-", r"(sk-ant-[A-Za-z0-9_-]{16,256})"),
    _rule("openai-key", "sk-",
          _START + r"(sk-(?:(?:proj|svcacct|admin|None|or-v1)-[A-Za-z0-9_-]{20,256}|[A-Za-z0-9]{32,128}))"),
    _rule("github-token", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
          r"(gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_\w{40,255})"),
    _rule("gitlab-token", "glpat- gldt- glrt- glcbt- glptt- glft- glsoat- glagent-",
          r"(gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)-[A-Za-z0-9_-]{20,128})"),
    _rule("aws-key-id", "AKIA ASIA", r"(?<![A-Za-z0-9+/])((?:AKIA|ASIA)[A-Z2-7]{16})(?![A-Za-z0-9+/])"),
    _rule("google-key", "AIza", _START + r"(AIza[A-Za-z0-9_-]{35})"),
    _rule("google-token", "ya29. GOCSPX-", _START + r"(ya29\.[A-Za-z0-9_-]{20,2048}|GOCSPX-[A-Za-z0-9_-]{20,64})"),
    _rule("slack-token", "xox xapp-",
          _START + r"(xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{16,256}|xapp-[A-Za-z0-9-]{20,256})"),
    _rule("slack-webhook", "hooks.slack.com/", r"hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_-]{20,128})"),
    _rule("stripe-key", "k_live_ k_test_", _START + r"([srp]k_(?:live|test)_[A-Za-z0-9]{16,256})"),
    _rule("webhook-secret", "whsec_", _START + r"(whsec_[A-Za-z0-9+/=_-]{20,128})"),
    _rule("npm-token", "npm_", _START + r"(npm_[A-Za-z0-9]{36})(?![A-Za-z0-9])"),
    _rule("pypi-token", "pypi-AgE", r"(pypi-AgE[A-Za-z0-9_-]{40,512})"),
    _rule("huggingface-token", "hf_", _START + r"(hf_[A-Za-z0-9]{30,64})(?![A-Za-z0-9_])"),
    _rule("sendgrid-key", "SG.", _START + r"(SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64})"),
    _rule("digitalocean-token", "_v1_", _START + r"(do[opr]_v1_[a-f0-9]{64})"),
    _rule("docker-token", "dckr_pat_", r"(dckr_pat_[A-Za-z0-9_-]{20,64})"),
    _rule("jwt", "eyJ", _START + r"(eyJ[A-Za-z0-9_-]{8,4096}\.eyJ[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{16,1024})"),
    _rule("authorization", "authorization",
          r"authorization\\{0,3}[\"']?\s{0,3}[:=]\s{0,3}\\{0,3}[\"']?"
          r"(?:(?:bearer|basic|token|digest|apikey)\s{1,3}|(?=[^\s\"']{0,128}[0-9]))"
          r"((?!bearer |basic |token |digest |apikey )[A-Za-z0-9+/=_.~:-]{8,4096})", any_case=True),
    _rule("bearer-token", "bearer ",
          _START + r"bearer\s{1,3}((?=[a-z_.~+/=-]{0,64}[0-9])[a-z0-9+/=_.~-]{16,4096})",
          any_case=True),
    _rule("url-password", "://", r"://[^\s/:@\"'<>\[\]]{0,128}:([^\s/@\"'<>]{1,256})@", any_case=True),
)  # fmt: skip

_MIN_WORD: Final = 20
_ANYWHERE: Final = tuple(rule for rule in RULES if rule.any_case)
_IN_WORDS: Final = tuple(rule for rule in RULES if not rule.any_case)

_BEGIN: Final = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_END: Final = re.compile(r"-----END (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_BODY: Final = re.compile(r"(?:[A-Za-z0-9+/=\s]|\\{1,4}[nr])*")
_CONTENT: Final = re.compile(r"[A-Za-z0-9+/=]{40}")
_PLACEHOLDER: Final = re.compile(r"[$%<{*]|x{3,}$|\.{3}|[A-Z_]{3,40}$|(?i:password|passwd|pass|pw|secret|token)$")


def applying(lower: str, words: str) -> tuple[Rule, ...]:
    """The rules that could find something; nearly always none. `words` are the text's `long_words`."""
    rules = [rule for rule in _ANYWHERE if any(need in lower for need in rule.needs)]
    if words:
        rules += [rule for rule in _IN_WORDS if any(need in words for need in rule.needs)]
    return tuple(rules)


def long_words(text: str) -> list[str]:
    """What the text holds between spaces and is long enough to be a token."""
    return [word for word in text.split() if len(word) >= _MIN_WORD]


def spans(text: str, rules: tuple[Rule, ...]) -> Iterator[Span]:
    """What these rules find."""
    for rule in rules:
        for found in rule.pattern.finditer(text):
            if found[1].startswith(OPENING) or (rule.name in _LOOSE and is_placeholder(found[1])):
                continue
            yield found.start(1), found.end(1), rule.name


_LOOSE: Final = frozenset({"authorization", "url-password"})


def is_placeholder(value: str) -> bool:
    """`$PASSWORD`, `<password>`, `{password}`, `****`: where a secret would go, not one."""
    return _PLACEHOLDER.match(value) is not None


def private_keys(text: str) -> Iterator[Span]:
    """Keys in PEM: from their first line to their last; to the end of what looks like one where that is missing."""
    place, end = 0, _END.search(text)
    while (begin := _BEGIN.search(text, place)) is not None:
        if end is not None and end.start() < begin.end():
            end = _END.search(text, begin.end())
        following = _BEGIN.search(text, begin.end()) if end is not None else None
        if end is not None and (following is None or end.start() < following.start()):
            content, place = end.start(), end.end()
        else:
            body = _BODY.match(text, begin.end())
            content = place = body.end() if body is not None else begin.end()
        if _CONTENT.search(text, begin.end(), content):  # else it is a program that knows how keys begin
            yield begin.start(), place, "private-key"
        else:
            place = begin.end()
