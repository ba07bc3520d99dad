"""Secrets in files and statements of tools, without a name before them: `.netrc`, `.pgpass`, SQL, data of a Kubernetes
secret, Terraform state. Those in command lines are in commands.py.

Each rule names a text that must occur; group 1 is the secret.
"""

# ruff: noqa: E501 - a table of patterns
from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from relight.journal.redaction.secrets.lazy_pattern import lazy_pattern
from relight.journal.redaction.secrets.spans import OPENING, Span
from relight.journal.redaction.secrets.typed import is_placeholder

_VALUE: Final = r"[\"']?([^\s\"'`$<>|;&,\[\]]{4,256})"
RULES: Final = tuple((need, lazy_pattern(source, re.DOTALL)) for need, source in (
    ("htpasswd", r"\bhtpasswd\b(?:[ ]-[A-Za-z0-9]*b[A-Za-z0-9]*)(?:[ ]-\S+)*[ ]\S+[ ]\S+[ ]" + _VALUE),
    ("openssl", r"\b(?:pass|passin|passout)[ :]{1,2}pass:([^\s\"'$<>|;&,]{4,256})|-pass(?:in|out)?[ ]pass:([^\s\"'$<>|;&,]{4,256})"),
    ("alias set", r"\bmc[ ]alias[ ]set[ ]\S+[ ]\S+[ ]\S+[ ]([^\s\"'$]{8,128})"),
    ("login ", r"(?:^|\n)[ \t>|+-]{0,4}(?:machine[ \t]+\S+|default)[ \t\n]+(?:login[ \t]+\S+[ \t\n]+)?password[ \t]+([^\s#][^\s]{3,256})"),
    (":5432:", r"(?:^|\n)[ \t>|+]{0,4}[\w.*-]{1,128}:5432:[^:\s]{1,64}:[^:\s]{1,64}:([^\s]{4,256})"),
    (":*:", r"(?:^|\n)[ \t>|+]{0,4}[\w.*-]{1,128}:(?:\*|\d{2,5}):[^:\s]{1,64}:[^:\s]{1,64}:([^\s]{4,256})"),
    ("identified by", r"(?i:\b(?:user|to|role)\b[^\n;]{1,160}?\sidentified\s{1,3}(?:with\s{1,3}\S{1,40}\s{1,3})?by)(?i:\s{1,3}password)?\s{1,3}[\"']([^\"'\n]{4,256})[\"']"),
    ("password '", r"(?i:(?:user|role)\b[^\n;]{1,120}?\bpassword\s{1,3})[\"']([^\"'\n]{4,256})[\"']"),
    ("random_password", r"\"type\":\s*\"random_password\".{0,600}?\"result\":\s*\"([^\"\n]{4,256})\""),
    ("\"result\"", r"\"result\":\s*\"([^\"\n]{4,256})\"(?=.{0,200}?\"(?:special|min_special|override_special)\")"),
    ("\"sensitive\"", r"\"sensitive\":\s*true.{0,160}?\"value\":\s*\"([^\"\n]{4,4096})\""),
    ("\"sensitive\"", r"\"value\":\s*\"([^\"\n]{4,4096})\"(?=[^{}]{0,160}?\"sensitive\":\s*true)"),
    ("requirepass", r"(?:^|\n)[ \t>|+]{0,4}(?:requirepass|masterauth)[ \t]+[\"']?([^\s\"']{4,256})"),
    ("from-literal", r"--from-literal[= ][\"']?[\w.-]{1,64}=([^\s\"'$]{4,256})"),
    ("secret_key", r"(?i:secret_key)[\"']?\]?\s{0,3}[:=]\s{0,3}[bB][\"'](?=[^\n]{0,200}\\x)((?:[^\\\"'\n]|\\{1,2}[^\n]){8,256})[\"']"),
    ("kty", r"[\"'](?:d|p|q|dp|dq|qi|k)\\{0,4}[\"']:\s{0,2}\\{0,4}[\"']([A-Za-z0-9_-]{16,2000})\\{0,4}[\"']"),
    ("phrase", r"(?i:(?:mnemonic|seed|recovery|backup|secret)[ _-]?(?:phrase|words)?)[\"']?\s{0,2}[:=]?\s{0,3}[\"']?((?:[a-z]{3,8}[ ]){11,23}[a-z]{3,8})(?![a-z])"),
    ("mnemonic", r"(?i:mnemonic)[\"']?[^\n]{0,20}?[:=]\s{0,3}[\"']?((?:[a-z]{3,8}[ ]){11,23}[a-z]{3,8})(?![a-z])"),
))  # fmt: skip
_SECRET_KIND: Final = lazy_pattern(r"kind[\"']?:[ ]*[\"']?(?:Sealed)?Secret\b")
_DATA: Final = lazy_pattern(
    r"(?:^|\n)[ \t>|+-]{0,12}(?:data|stringData):[ \t]*\n((?:[ \t>|+-]+[\w.-]+:[^\n]*(?:\n|$))+)"
)
_DATA_LINE: Final = lazy_pattern(r"[\w.-]+:[ \t]*[\"']?([^\s\"'|>][^\s\"']{3,})")
_DATA_JSON: Final = lazy_pattern(r"\"(?:data|stringData)\":\s*\{([^{}]{4,20000})\}")
_JSON_VALUE: Final = lazy_pattern(r":\s*\"([^\"\n]{4,20000})\"")


def spans(text: str, lower: str) -> Iterator[Span]:
    """Secrets in the configuration files and statements of tools."""
    for need, pattern in RULES:
        if need in lower:
            for found in pattern.finditer(text):
                group = found.lastindex or 1
                value = found[group]
                if value and OPENING not in value and not is_placeholder(value):
                    yield found.start(group), found.end(group), "password"
    if "secret" in lower and "data" in lower and _SECRET_KIND.search(text):
        yield from _kubernetes(text)


def _kubernetes(text: str) -> Iterator[Span]:
    """All values of a Kubernetes secret, whatever their names."""
    for outer, inner in ((_DATA, _DATA_LINE), (_DATA_JSON, _JSON_VALUE)):
        for block in outer.finditer(text):
            for found in inner.finditer(text, block.start(1), block.end(1)):
                if OPENING not in found[1]:
                    yield found.start(1), found.end(1), "secret"
