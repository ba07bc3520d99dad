"""Secrets whose name stands apart from them: `- name: API_KEY` above `value: …`, `name="TOKEN" value="…"`, a row of a
table, `set -x TOKEN …`, `gh secret set TOKEN --body …`, `invalid api_key '…'`, `the access token is …`.

The name has to announce a secret, and the value to look like one: both are often ordinary words.
"""

# ruff: noqa: E501 - a table of patterns
from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from relight.journal.redaction.secrets.assigned import announced_kind
from relight.journal.redaction.secrets.lazy_pattern import lazy_pattern
from relight.journal.redaction.secrets.spans import Span

_NEEDS: Final = ("pass", "secret", "token", "key", "credential", "pat", "pwd", "dsn")
"""in lower case; every name that announces a secret contains one of them"""
_NAME: Final = r"(?P<name>[A-Za-z][\w.-]{2,63})"
_VALUE: Final = r"(?P<value>[^\s\"'`<>,;{}\\]{8,4096})"
_QUOTE: Final = r"\\{0,4}[\"'`]?"
_REFUSED: Final = ("invalid", "wrong", "bad", "unknown", "expired", "rejected", "incorrect", "revoked")
RULES: Final = tuple((needs, lazy_pattern(source)) for needs, source in (
    (("value",), rf"\b(?:name|key|Name|Key){_QUOTE}\s{{0,2}}[:=]\s{{0,2}}{_QUOTE}{_NAME}{_QUOTE}(?:,|\\n|\s){{1,4}}[ \t]{{0,24}}{_QUOTE}(?:value|Value){_QUOTE}\s{{0,2}}[:=]\s{{0,2}}{_QUOTE}{_VALUE}"),
    ((",", "\t", "|"), rf"(?m)^[ \t+>|-]{{0,8}}{_QUOTE}{_NAME}{_QUOTE}[ ]{{0,24}}[,\t|][ \t]{{0,24}}{_QUOTE}{_VALUE}{_QUOTE}[ \t]{{0,8}}\|?\r?$"),
    (("set ",), rf"\bset[ ](?:-{{1,2}}[a-zA-Z]+[ ]){{1,4}}{_NAME}[ ]{_QUOTE}{_VALUE}"),
    (("secret set",), rf"\bsecret[ ]set[ ]{_NAME}[ ](?:-[^\s]{{1,40}}[ ](?:[^\s-][^\s]{{0,80}}[ ])?){{0,4}}?(?:-b|--body)[ =]{_QUOTE}{_VALUE}"),
    (_REFUSED, rf"(?i)\b(?:{'|'.join(_REFUSED)})[ ](?:the[ ])?{_NAME}(?:[ ]provided)?:?[ ]{_QUOTE}{_VALUE}"),
    (("  ",), rf"(?m)^[ \t+>-]{{0,12}}{_NAME}[ ]{{2,40}}{_VALUE}[ \t]{{0,8}}\r?$"),
    (("name=",), rf"\bname=[\"']?{_NAME}[\"']?(?:\r?\n|\\{{1,2}}r\\{{1,2}}n){{2,4}}{_VALUE}"),
    (("</",), rf">{_NAME}</\w{{1,12}}>\s{{0,8}}<\w{{1,12}}[^<>]{{0,80}}>{_VALUE}</"),
    (("set ",), rf"(?i)\bset[ ][`\"']?{_NAME}[`\"']?[ ]to[ ][`\"']?{_VALUE}"),
    (("#define",), rf"(?i)#define[ \t]{{1,24}}(?P<name>\w{{0,40}}(?:passw(?:or)?d|passphrase|secret|token|api_key))[ \t]{{1,24}}[\"']{_VALUE}"),
    (("setproperty", "putenv", "setenv", "set_config"), rf"(?i)\b(?:setproperty|putenv|setenv|set_config)\(\s{{0,3}}[\"']?{_NAME}[\"']?,\s{{0,24}}[\"']{_VALUE}"),
    ((" is ",), rf"(?i)\b{_NAME}(?:[ ](?P<second>keys?|token|secret|password|passphrase|pat))?[*`]{{0,3}}[ ]is[ ](?:now[ ])?[`\"'*]{{0,3}}{_VALUE}"),
))  # fmt: skip
"""texts of which one must occur, and the pattern"""


def spans(text: str, lower: str) -> Iterator[Span]:
    """Values that a name elsewhere in the text announces."""
    if not any(need in lower for need in _NEEDS):
        return
    for needs, pattern in RULES:
        if not any(need in lower for need in needs):
            continue
        for found in pattern.finditer(text):
            second = found.groupdict().get("second")
            value = found["value"].rstrip(".:)]*")
            if (kind := announced_kind(f"{found['name']}_{second}" if second else found["name"], value)) is not None:
                yield found.start("value"), found.start("value") + len(value), kind
