"""Passwords in the arguments of commands, without a telling name before them: `mysql -pX`, `curl -u a:X`, `docker login
-p X`, `wandb login X`, `echo X | docker login --password-stdin`.

A command is cut out first (continued lines belong to it, quotes do not end it), as it appears in a shell, in a list of
arguments or inside JSON. Then its options are searched. Each step has a bound, so that no text makes it slow.
"""

# ruff: noqa: E501 - a table of patterns
from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

import msgspec

from relight.journal.redaction.secrets.lazy_pattern import lazy_pattern
from relight.journal.redaction.secrets.spans import OPENING, Span
from relight.journal.redaction.secrets.typed import is_placeholder

_LINE_CHARS: Final = 800
"""length up to which a command line is searched"""
_BEFORE: Final = r"(?:^|(?<=[\s\"',\[(]))"
_VALUE: Final = r"(?:(?P<open>\\{0,3}[\"'])(?P<quoted>[^\n]{1,256}?)(?P=open)|(?P<bare>[^\s\"'`|;<>,)\]]{1,256}))"
_QUOTES: Final = r"\\{0,3}[\"']?"
_NEXT: Final = rf"{_QUOTES}(?:[ \t]*,[ \t]*|[ \t]*=[ \t]*|[ \t]+(?:\\{{1,2}}\n[ \t]*)?)"
"""between an option and its value: a space, an equals sign, or the comma of a list of arguments"""
_PAIR: Final = r"(?P<open>\\{0,3}[\"'])?[^\s:\"'$%]{1,80}[:%](?P<bare>[^\s\"'`<>;,)\]]{1,256})"
_LONG: Final = rf"--(?:[a-z]{{1,12}}-)?(?:password|passwd|pass|token|secret){_NEXT}{_VALUE}"
_NO_VALUE: Final = lazy_pattern(
    r"-{1,2}[A-Za-z]|\$[A-Za-z_({]|\d{1,5}(?::\d{1,5}){0,2}(?:/(?:tcp|udp))?$|@|\.{0,2}/|-$|https?:"
)
_EXPANSION: Final = lazy_pattern(r"\$\{|\$\(|\{\{|\{[A-Za-z_.]{0,40}\}|%\(|%s")
_MIN_CHARS: Final = 4
_SIGNS: Final = (" -", '"-', "'-", "\t-", "login", "configure", "/p:", "http-basic", "rabbitmqctl", "wpa_passphrase")
"""every matching line contains one of them"""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One family of commands and the options that carry a password."""

    names: tuple[str, ...]
    options: tuple[str, ...]
    """patterns, of which the group `quoted` or `bare` is the secret"""
    verb: str = ""
    """a word that the line must contain, for commands with other uses too"""


COMMANDS: Final = (
    Command(
        names=("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mysqlshow", "mysqlsh", "mysqlcheck", "mariadb",
               "mariadb-dump", "mariadb-admin"),
        options=(rf"-p(?!ort\b|rotocol\b|refix\b|rint\b){_VALUE}", _LONG,
                 # with a space it is the database, unless it is no plausible name of one
                 rf"-p[ \t]+(?=\S{{0,64}}\d)(?=\S{{0,64}}[A-Z!@#%^&*+])(?=\S{{0,64}}[A-Za-z]){_VALUE}"),
    ),
    Command(names=("curl",), options=(
        rf"-[A-Za-z]{{0,8}}[uU](?:{_NEXT})?{_PAIR}", rf"--(?:user|proxy-user){_NEXT}{_PAIR}", _LONG)),
    Command(names=("http", "https", "xh"), options=(rf"(?:-a|--auth){_NEXT}{_PAIR}",)),
    Command(names=("wget", "svn", "hg", "psql", "snowsql", "bq", "gcloud", "aria2c"), options=(_LONG,)),
    Command(names=("sshpass",), options=(rf"-p(?:{_NEXT})?{_VALUE}",)),
    Command(names=("redis-cli", "valkey-cli", "keydb-cli"), options=(rf"-a{_NEXT}{_VALUE}", _LONG)),
    Command(names=("mongo", "mongosh", "mongodump", "mongorestore", "mongoexport", "mongoimport"),
            options=(rf"-p(?:{_NEXT})?{_VALUE}", _LONG)),
    Command(names=("docker", "podman", "nerdctl", "buildah", "skopeo", "helm", "oras", "crane", "regctl", "az", "oc",
                   "kubectl", "heroku", "cf", "apptainer", "singularity", "nuget", "jf", "argocd"), verb="login",
            options=(rf"-p(?:{_NEXT})?{_VALUE}", _LONG)),
    Command(names=("wandb", "vault", "flyctl", "fly", "doppler", "huggingface-cli", "hf"), verb="login",
            options=(rf"login{_NEXT}(?:\\{{0,3}}[\"']?-[^\s\"']{{1,80}}{_NEXT}){{0,4}}"
                     r"\\{0,3}[\"']?(?P<bare>(?=[^\s\"']{0,64}\d)[A-Za-z0-9._-]{16,256})",)),
    Command(names=("ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldappasswd", "ldapwhoami"),
            options=(rf"-w{_NEXT}{_VALUE}",)),
    Command(names=("smbclient", "rpcclient", "net", "mount.cifs"), options=(rf"-U{_NEXT}{_PAIR}",)),
    Command(names=("sqlcmd", "bcp", "ipmitool", "mosquitto_pub", "mosquitto_sub", "impala-shell", "unzip", "zip"),
            options=(rf"-P(?:{_NEXT})?{_VALUE}",)),
    Command(names=("7z", "7za", "unrar", "rar"), options=(rf"-p(?=[^\s\"']*[0-9!@#]){_VALUE}",)),
    Command(names=("gpg", "gpg2", "openssl", "keytool", "jarsigner"),
            options=(rf"--?(?:passphrase|storepass|keypass|srcstorepass|deststorepass){_NEXT}{_VALUE}",
                     r"-pass(?:in|out)?[ ]pass:(?P<bare>[^\s\"'$<>|;&,]{4,256})")),
    Command(names=("openssl",), verb="enc", options=(rf"-k{_NEXT}{_VALUE}",)),
    Command(names=("snmpwalk", "snmpget", "snmpset", "snmpbulkwalk", "snmptrap"), options=(rf"-[AX](?:{_NEXT})?{_VALUE}",)),
    Command(names=("useradd", "usermod"), options=(rf"-p{_NEXT}{_VALUE}",)),
    Command(names=("influx",), options=(rf"-password{_NEXT}{_VALUE}",)),
    Command(names=("xfreerdp", "wfreerdp", "xfreerdp3", "sdl-freerdp"), options=(rf"/p:{_VALUE}",)),
    Command(names=("poetry",), verb="http-basic", options=(rf"http-basic\.[\w.-]{{1,64}}[ \t]+\S{{1,80}}[ \t]+{_VALUE}",)),
    Command(names=("rabbitmqctl",), options=(rf"(?:add_user|change_password){_NEXT}[^\s\"']{{1,80}}[ \t]+{_VALUE}",)),
    Command(names=("wpa_passphrase",), options=(rf"[^\s\"']{{1,64}}[ \t]+{_VALUE}",)),
    Command(names=("ssh-keygen",), options=(rf"-[NP]{_NEXT}{_VALUE}",)),
    Command(names=("cqlsh", "twine"), options=(rf"-p{_NEXT}{_VALUE}", _LONG)),
    Command(names=("lftp",), options=(r"-u[ \t]+[^\s,\"']{1,64},(?P<bare>[^\s\"';,]{1,128})",)),
    Command(names=("aws",), verb="configure",
            options=(rf"(?:aws_secret_access_key|aws_session_token)[ \t]+{_VALUE}",)),
)  # fmt: skip
_PIPED: Final = lazy_pattern(
    r"\b(?:echo|printf)[ \t]+(?:-n[ \t]+)?(?:'%s'[ \t]+)?(?:(?P<open>\\{0,3}[\"'])(?P<quoted>[^\n\"'$]{4,256})(?P=open)"
    r"|(?P<bare>[^\s\"'$|]{4,256}))[ \t]*\|[ \t]*(?:sudo[ \t]+-S\b|[^\n|;]{0,120}(?:--password-stdin|--with-token|-pass stdin))"
)
_CLIENT: Final = lazy_pattern(r"\bwandb\.login\([^()\n]{0,80}?key\s{0,2}=\s{0,2}[\"'](?P<bare>[a-f0-9]{40})[\"']")


def spans(text: str, lower: str) -> Iterator[Span]:
    """The passwords given to commands in this text."""
    for command in COMMANDS if any(sign in lower for sign in _SIGNS) else ():
        if command.verb and command.verb not in lower:
            continue
        for name in command.names:
            if name in lower:
                yield from _given(text, name, command)
    if "|" in text and ("-stdin" in lower or "sudo" in lower or "--with-token" in lower or "pass stdin" in lower):
        yield from _found(text, _PIPED, 0, len(text))
    if "wandb.login" in lower:
        yield from _found(text, _CLIENT, 0, len(text))


def _given(text: str, name: str, command: Command) -> Iterator[Span]:
    done = 0
    for found in _named(name).finditer(text):
        if found.end() < done:
            continue  # in the line of the one before
        done = _line_end(text, found.end())
        if command.verb and not re.search(rf"\b{command.verb}\b", text[found.end() : done]):
            continue
        for option in command.options:
            yield from _found(text, _compiled(option), found.end(), done)


def _found(text: str, pattern: re.Pattern[str], start: int, end: int) -> Iterator[Span]:
    for found in pattern.finditer(text, start, end):
        groups = found.groupdict()
        which = "quoted" if groups.get("quoted") is not None else "bare"
        if _is_secret(found[which]):
            yield found.start(which), found.end(which), "password"


def _is_secret(value: str) -> bool:
    if len(value) < _MIN_CHARS or OPENING in value or value.startswith(OPENING[1:]) or "[redacted" in value:
        return False
    return not (_NO_VALUE.match(value) or _EXPANSION.search(value) or is_placeholder(value))


def _line_end(text: str, start: int) -> int:
    """The end of the command that begins here: the end of its line, or the beginning of another."""
    quote, at = "", start
    end = min(len(text), start + _LINE_CHARS)
    while at < end:
        one = text[at]
        if one == "\n" and not text[max(start, at - 2) : at].rstrip("\r").endswith("\\"):
            return at
        if one == "\\" and text[at + 1 : at + 2] == "n" and text[at - 1] != "\\":
            return at  # the end of a line inside a text of JSON
        if one in "\"'":
            quote = "" if quote == one else quote or one
        elif not quote and one in ";|&" and text[at + 1 : at + 2] in ("", " ", "&", "|", "\n"):
            return at
        at += 1
    return end


@cache
def _named(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.@-]){re.escape(name)}(?=[\s\"'])")


@cache
def _compiled(option: str) -> re.Pattern[str]:
    return re.compile(_BEFORE + option)
