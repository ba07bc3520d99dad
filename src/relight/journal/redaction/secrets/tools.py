"""Secrets in files and statements of tools, without a name before them: `.netrc`, `.pgpass`, SQL, data of a Kubernetes
secret, Terraform state. Those in command lines are in commands.py.

Each rule names a text that must occur; group 1 is the secret.
"""

# ruff: noqa: E501 - a table of patterns
from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from relight.journal.redaction.secrets.assigned import is_member_secret, kind_of_key, looks_strict
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
    ("identified ", r"(?i:\b(?:user|to|role)\b[^\n;]{1,160}?\sidentified\s{1,3}(?:with\s{1,3}\S{1,40}\s{1,3})?(?:by|as))(?i:\s{1,3}password)?\s{1,3}[\"']([^\"'\n]{4,256})[\"']"),
    ("password '", r"(?i:(?:user|role)\b[^\n;]{1,120}?\bpassword\s{1,3})[\"']([^\"'\n]{4,256})[\"']"),
    ("password", r"(?i:\b(?:login|user|role|set\s{1,3}password)\b[^\n;]{1,160}?(?:\bpassword\s{0,3}=\s{0,3}N?|=\s{0,3}password\())[\"']([^\"'\n]{4,256})[\"']"),
    ("on >", r"(?:^|\n)[ \t>|+]{0,4}user\s{1,3}\S{1,64}\s{1,3}on\s{1,3}>([^\s\"']{4,256})"),
    ("masterauth", r"(?:^|\n)[ \t>|+]{0,4}masterauth[ \t]+[\"']?([^\s\"']{4,256})"),
    ("bindpw", r"(?:^|\n)[ \t>|+]{0,4}(?:bindpw|rootpw)[ \t]+[\"']?([^\s\"'{]{4,256})"),
    ("rootpw:", r"RootPW:{1,2}[ ]([^\s{]{4,256})"),
    (" psk ", r":[ ]PSK[ ]\"([^\"\n]{4,256})\""),
    ("snmp-server", r"snmp-server[ ]community[ ]([^\s\"']{4,64})"),
    ("password 7", r"\b(?:password|secret|key)[ ]7[ ]([0-9A-F]{6,128})(?![0-9A-Za-z])"),
    ("auth ", r"(?:^|\n)[ \t>]{0,4}AUTH[ ](?:[\w.-]{1,64}[ ])?(?=\S{0,64}\d)(?=\S{0,64}[A-Za-z])([^\s\"'=:]{8,256})(?=\r?\n[ \t>]{0,4}[+-]?(?:OK|ERR|WRONGPASS))"),
    ("securestring", r"ConvertTo-SecureString[ ](?:-String[ ])?[\"']([^\"'\n]{4,256})[\"']"),
    ("credential(", r"(?i:(?:password|basic|network)credentials?)\(\s{0,3}[\"'][^\"'\n]{1,80}[\"'],\s{0,3}[\"'](?=[^\"'\n]{0,256}\d)([^\"'\s]{4,256})[\"']"),
    (".auth(", r"\.auth\(\s{0,3}[\"'][^\"'\n]{1,80}[\"'],\s{0,3}[\"'](?=[^\"'\n]{0,256}\d)([^\"'\s]{4,256})[\"']"),
    ("sp_addlogin", r"(?i:sp_(?:addlogin|password))[ ]N?'[^'\n]{1,80}',[ ]N?'([^'\n]{4,256})'"),
    ("type=", r"(?i:<input[^<>]{0,120}?\btype=[\"']?password\b[^<>]{0,160}?\bvalue=)[\"']?([^\"'<>\s]{4,256})"),
    ("secrets", r"\bsecrets?[ :](?:set|import|add)[ ](?:-{1,2}\S{1,40}[ ]){0,4}(?:\w{1,64}=\S{1,256}[ ]){0,4}\w{1,64}=[\"']?(?=\S{0,64}\d)([^\s\"'$]{8,256})"),
    ("0x", r"(?i:wallet|private_?key\w{0,16}|_pk|accounts)[\"']?[ :=(\[]{1,6}[\"']?(0x[0-9a-fA-F]{64})(?![0-9a-fA-F])"),
    ("_pk", r"(?i:_pk)=[\"']?((?:0x)?[0-9a-fA-F]{64})(?![0-9a-fA-F])"),
    ("\"key\"", r"\"username\":\s{0,3}\"[^\"\n]{1,80}\",\s{0,3}\"key\":\s{0,3}\"([0-9a-f]{32})\""),
    ("dockerconfigjson", r"\.dockerconfigjson\\{0,3}[\"']?:[ ]{0,3}\\{0,3}[\"']?([A-Za-z0-9+/=]{40,20000})"),
    ("sonar.", r"sonar\.(?:login|token)[ ]{0,3}[=:][ ]{0,3}[\"']?([0-9a-z_]{40,44})(?![0-9a-z_])"),
    ("static key", r"-----BEGIN OpenVPN Static key V1-----(?:\r?\n|\\{1,2}n)((?:[^\n-]{0,16}[0-9a-f]{32}(?:\r?\n|\\{1,2}n|$)){1,20})"),
    ("secret", r"(?:kubectl[ ][^\n]{0,120}?get[ ]secrets?\b[^\n]{0,200}?base64[ ](?:-d|-D|--decode)|secrets[ ]versions[ ]access[ ][^\n]{1,160}|get-secret-value[ ][^\n]{0,160}?--output[ ]text)\r?\n([^\s\"']{6,512})(?=\s|$)"),
    ("$ ", r"(?:^|\n)[ \t]{0,4}[$][ ](?:pass[ ](?:show[ ])?[\w./@-]{1,100}|op[ ]read[ ]\S{1,200}|bw[ ]get[ ]password[ ]\S{1,100}|vault[ ]kv[ ]get[ ][^\n]{0,80}?-field[= ][^\n]{1,120}|security[ ]find-[a-z]{2,10}-password[ ][^\n]{0,120}?-w\b[^\n]{0,80})\r?\n([^\s\"']{6,512})(?=\s|$)"),
    ("setuser", r"(?i:\bacl\s{1,3}setuser\b)[^\n]{1,160}?\s>([^\s\"']{4,256})"),
    # code: an argument that the function or its neighbour announces
    ("password(", r"(?i:(?:\.|\bset_?|\bwith_?)password)\(\s{0,3}[\"'](?=[^\"'\n]{0,256}\d)([^\"'\s]{4,256})[\"']\s{0,3}\)"),
    ("auth=", r"\bauth=(?:\w+\.)?(?:BasicAuth|HTTPBasicAuth|HTTPDigestAuth)?\(\s{0,3}[\"'][^\"'\n]{1,80}[\"'],\s{0,3}[\"'](?=[^\"'\n]{0,256}\d)([^\"'\s]{4,256})[\"']"),
    (".login(", r"\.login\(\s{0,3}[\"'][^\"'\n]{1,80}[\"'],\s{0,3}[\"'](?=[^\"'\n]{0,256}\d)([^\"'\s]{4,256})[\"']"),
    ("mysqli", r"\bmysqli(?:_connect|_real_connect)?\(\s{0,3}(?:[^,\n()]{1,80},\s{0,3}){2}[\"']([^\"'\s]{4,256})[\"']"),
    ("define(", r"\bdefine\(\s{0,3}[\"']\w{0,40}(?:PASSWORD|SECRET|TOKEN|_KEY|_SALT)[\"'],\s{0,24}[\"'](?=[^\"'\n]{0,256}\d)([^\"'\n]{6,256})[\"']"),
    ("variable \"", r"\bvariable[ ]\"[\w-]{0,80}(?:password|passwd|secret|token)[\w-]{0,20}\"\s{0,3}\{[^{}]{0,300}?\bdefault\s{0,24}=\s{0,3}\"([^\"\n]{4,256})\""),
    # forms of settings files
    (": !", r"(?i:passw(?:or)?d|passphrase|secret|token)[\"']?:[ ]{1,4}!(?:unsafe|!?str)[ ]{1,4}[\"']?([^\s\"']{4,256})"),
    ("passw", r"(?i:passw(?:or)?d|passphrase)[\"']?:[ ]{1,4}[>|][+-]?[ \t]{0,4}\r?\n[ \t]{1,24}([^\s\"']{4,256})[ \t]{0,8}(?:\r?\n|$)"),
    ("psk=", r"(?:^|\n)[ \t>|+-]{0,8}(?:wpa_)?psk=[\"']?([^\s\"']{8,64})"),
    ("redis", r"\b(?:REDISCLI_AUTH|VALKEYCLI_AUTH)=[\"']?([^\s\"'$]{4,256})"),
    ("private-lines", r"Private-Lines: \d{1,3}\r?\n((?:[A-Za-z0-9+/=]{1,64}\r?\n?){1,80})"),
    ("chpasswd", r"\b(?:echo|printf)[ \t]+[\"']?[\w.-]{1,64}:([^\s\"'$|]{4,256})[\"']?[ \t]{0,4}\|[ \t]{0,4}(?:sudo[ \t]+)?chpasswd\b"),
    ("<(", r"(?:pass|secret|token|key)[\w-]{0,20}[ =][\"']?<\([ \t]{0,4}(?:echo|printf)[ \t]+(?:-n[ \t]+)?[\"']?([^\s\"'$)]{4,256})[\"']?[ \t]{0,4}\)"),
    ("net use", r"\bnet[ \t]+use[ \t]+(?:\w:[ \t]+)?\\{2,4}\S{1,160}[ \t]+(?!/)([^\s\"'*]{4,128})[ \t]+/user:"),
    ("net use", r"\bnet[ \t]+use[ \t]+(?:\w:[ \t]+)?\\{2,4}\S{1,160}[ \t]+/user:\S{1,80}[ \t]+(?!/)([^\s\"'*]{4,128})"),
    ("assword", r"assword:?[^\n]{0,24}\bsend[ \t]+(?:--[ \t]+)?[{\"]([^\"\n$}\\]{4,256})(?:\\r|\\n|[\"}])"),
    ("sqlplus", r"\bsqlplus\b[^\n]{0,40}?[ \t][\"']?[\w$]{1,64}/([^\s\"'@/$]{3,128})(?:@|[\s\"'])"),
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
_INSERT: Final = lazy_pattern(
    r"(?i)\binsert\s{1,3}into\s{1,3}\S{1,80}?\s{0,3}\((?P<columns>[^()]{3,800})\)\s{0,8}values\s{0,8}\((?P<values>[^\n]{3,1600})"
)
_SQL_VALUE: Final = lazy_pattern(
    r"[EN]?'(?P<text>(?:[^'\n]|''){0,400})'|(?:\w+\([^()]{0,80}\)|[^,'()\s][^,'()\n]{0,80})(?=\s{0,3}[,)])"
)
_COOKIES: Final = lazy_pattern(
    r"(?i)\b(?:set-)?cookies?\\{0,3}[\"']?\s{0,3}[:=]\s{0,3}\\{0,3}[\"']?([^\n\"'\\]{8,4096})"
)
_COOKIE: Final = lazy_pattern(r"(?:^|[;\s])[\w.%-]{1,80}=([^\s;,]{16,2048})")
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
    if "insert" in lower and ("passw" in lower or "secret" in lower or "token" in lower):
        yield from _inserted(text)
    if "cookie" in lower:
        yield from _cookies(text)


def _inserted(text: str) -> Iterator[Span]:
    """The values of an INSERT in columns whose names announce a secret, by their position."""
    for found in _INSERT.finditer(text):
        columns = [one.strip(' "`[]\n\t') for one in found["columns"].split(",")]
        values = list(_SQL_VALUE.finditer(text, found.start("values"), found.end("values")))
        for name, value in zip(columns, values, strict=False):
            kind = kind_of_key(name)
            if kind is not None and value["text"] and is_member_secret(kind, value["text"]):
                yield value.start("text"), value.end("text"), kind


def _cookies(text: str) -> Iterator[Span]:
    """Every value of a cookie header that looks like the identity of a session."""
    for header in _COOKIES.finditer(text):
        for found in _COOKIE.finditer(text, header.start(1), header.end(1)):
            if OPENING not in found[1] and looks_strict(found[1].removeprefix("s%3A")):
                yield found.start(1), found.end(1), "cookie"


def _kubernetes(text: str) -> Iterator[Span]:
    """All values of a Kubernetes secret, whatever their names."""
    for outer, inner in ((_DATA, _DATA_LINE), (_DATA_JSON, _JSON_VALUE)):
        for block in outer.finditer(text):
            for found in inner.finditer(text, block.start(1), block.end(1)):
                if OPENING not in found[1]:
                    yield found.start(1), found.end(1), "secret"
