"""Ignore rules: `.gitignore` at every level, `.git/info/exclude`, `.relightignore`, secrets.

Pure functions. Precedence, strongest first: the include list; `.relightignore`, deepest first; secrets; `.gitignore`,
deepest first; `.git/info/exclude`. So a `.gitignore` cannot include a secret, but a `!.env` in `.relightignore` can. As
in git, a pattern of a deeper level cannot include anything inside an ignored directory; the include list can.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple

from relight.journal.redaction.secrets.spans import OPENING

Verdict = Literal["ignored", "secret"] | None
_HIDDEN: Final = OPENING.encode()

MAX_LINES: Final = 10_000
"""lines read of one ignore file"""
LINE_MAX_BYTES: Final = 1024
MAX_CACHED_NAMES: Final = 100_000

SECRETS: Final = (
    b".env",
    b".env.*",
    b"*.env",
    b"!.env.example",
    b"!.env.sample",
    b"!.env.template",
    b"!.env.dist",
    b"*.pem",
    b"*.key",
    b"*.p12",
    b"*.pfx",
    b"*.jks",
    b"*.keystore",
    b"*.kdbx",
    b"*.ppk",
    b"id_rsa",
    b"id_dsa",
    b"id_ecdsa",
    b"id_ed25519",
    b"id_ed25519_sk",
    b"id_ecdsa_sk",
    b".netrc",
    b"_netrc",
    b".pgpass",
    b".pypirc",
    b".git-credentials",
    b".htpasswd",
    b".vault-token",
    b".ssh/",
    b".gnupg/",
    b".aws/credentials",
    b".docker/config.json",
    b".kube/config",
    b"credentials.json",
    b"service-account*.json",
    b"secrets.json",
    b"secrets.yaml",
    b"secrets.yml",
    b"secrets.toml",
)


class Pattern(NamedTuple):
    source: bytes
    matches: Callable[[bytes], object]
    on_path: bool
    """match against the path below the file's directory; otherwise against the name alone"""
    directories_only: bool
    negated: bool


class Level:
    """The patterns of one ignore file, which apply below its directory."""

    def __init__(self, base: bytes, lines: Iterable[bytes]) -> None:
        self.base = base
        self._cut = len(base) + 1 if base else 0
        self._patterns = [one for line in lines if (one := parse(line)) is not None]
        self._patterns.reverse()
        self._on_name = _any(one for one in self._patterns if not one.on_path)
        self._on_path = _any(one for one in self._patterns if one.on_path)
        self._names: dict[bytes, bool] = {}

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def verdict(self, path: bytes, name: bytes, is_dir: bool) -> bool | None:
        """True: ignored. False: included again. None: no pattern matches. The last pattern that matches wins."""
        below = path[self._cut :]
        if not self._may_match(name) and (self._on_path is None or not self._on_path(below)):
            return None
        for one in self._patterns:
            if (is_dir or not one.directories_only) and one.matches(below if one.on_path else name):
                return not one.negated
        return None

    def _may_match(self, name: bytes) -> bool:
        """Whether any name pattern matches: one expression for all patterns, cached, since most names match none."""
        known = self._names.get(name)
        if known is None:
            if len(self._names) > MAX_CACHED_NAMES:
                self._names.clear()
            known = self._names[name] = self._on_name is not None and self._on_name(name) is not None
        return known


def _any(patterns: Iterable[Pattern]) -> Callable[[bytes], object] | None:
    """One expression that matches if any of the patterns does."""
    sources = [b"(?:" + one.source + b")" for one in patterns]
    return re.compile(b"|".join(sources), re.DOTALL).fullmatch if sources else None


def parse(line: bytes) -> Pattern | None:
    """Parse one line by git's rules; None for comments, blanks and what git would not match."""
    line = line.rstrip(b"\r\n")
    if not line or line.startswith(b"#") or len(line) > LINE_MAX_BYTES:
        return None
    stripped = line.rstrip(b" ")
    if stripped.endswith(b"\\") and len(stripped) < len(line):
        stripped += b" "
    line = stripped
    negated = line.startswith(b"!")
    line = line[1:] if negated else line
    if line.startswith(b"\\#") or line.startswith(b"\\!"):
        line = line[1:]
    directories_only = line.endswith(b"/")
    line = line.rstrip(b"/") if directories_only else line
    on_path = b"/" in line
    line = line.removeprefix(b"/")
    if not line:
        return None
    source = _translate(line)
    if source is None:
        return None
    return Pattern(source, re.compile(source, re.DOTALL).fullmatch, on_path, directories_only, negated)


def _translate(glob: bytes) -> bytes | None:
    """A glob as a regular expression; None if a bracket is never closed, as git then matches nothing."""
    out, at = b"", 0
    while at < len(glob):
        char = glob[at : at + 1]
        if char == b"*":
            piece, at = _stars(glob, at)
            out += piece
        elif char == b"?":
            out, at = out + b"[^/]", at + 1
        elif char == b"[":
            found = _bracket(glob, at)
            if found is None:
                return None
            out, at = out + found[0], found[1]
        elif char == b"\\":
            out, at = out + re.escape(glob[at + 1 : at + 2]), at + 2
        else:
            out, at = out + re.escape(char), at + 1
    return out


def _stars(glob: bytes, at: int) -> tuple[bytes, int]:
    """`**/`, `/**` and `/**/` cross directories if alone between slashes; other stars do not."""
    end = at
    while glob[end : end + 1] == b"*":
        end += 1
    starts = at == 0 or glob[at - 1 : at] == b"/"
    if end - at == 2 and starts and glob[end : end + 1] == b"/":
        return b"(?:[^/]+/)*", end + 1
    if end - at == 2 and starts and end == len(glob) and at:
        return b".+", end
    return b"[^/]*", end


def _bracket(glob: bytes, at: int) -> tuple[bytes, int] | None:
    end = at + 1
    negated = glob[end : end + 1] in (b"!", b"^")
    end += negated
    start = end
    body = b""
    while (char := glob[end : end + 1]) != b"]" or end == start:
        if not char:
            return None
        if glob[end : end + 2] == b"[:" and (close := glob.find(b":]", end)) > 0:
            body += _CLASSES.get(glob[end + 2 : close], b"")
            end = close + 2
            continue
        if char == b"\\":
            end += 1
            char = glob[end : end + 1]
        body += char if char == b"-" and body and glob[end + 1 : end + 2] != b"]" else re.escape(char)
        end += 1
    if not body:
        return None
    piece = b"(?!/)[" + (b"^" if negated else b"") + body + b"]"
    try:
        re.compile(piece)
    except re.error:
        return None
    return piece, end + 1


_CLASSES: Final = {
    b"alpha": b"A-Za-z",
    b"digit": b"0-9",
    b"alnum": b"A-Za-z0-9",
    b"upper": b"A-Z",
    b"lower": b"a-z",
    b"space": rb"\s",
    b"xdigit": b"A-Fa-f0-9",
    b"punct": rb"!-/:-@\[-`{-~",
}


class Include:
    """What is captured although it is ignored: patterns and exact paths."""

    def __init__(self, patterns: Iterable[bytes] = (), paths: Iterable[bytes] = ()) -> None:
        self.patterns = tuple(patterns)
        self.paths = frozenset(paths)
        self._level = Level(b"", self.patterns)
        literal = [p.strip(b"/") for p in self.patterns if not any(c in p for c in b"*?[\\")]
        self._open = {up for path in (*literal, *self.paths) for up in _parents(path)}
        self._is_empty = not self.patterns and not self.paths

    def holds(self, path: bytes, name: bytes, is_dir: bool) -> bool:
        return not self._is_empty and (path in self.paths or self._level.verdict(path, name, is_dir) is True)

    def reaches_into(self, path: bytes) -> bool:
        """Whether an ignored directory is entered because an included path is in it."""
        return path in self._open

    def with_paths(self, paths: Iterable[bytes]) -> Include:
        return Include(self.patterns, self.paths | frozenset(paths))


def _parents(path: bytes) -> list[bytes]:
    parts = path.split(b"/")
    return [b"/".join(parts[:n]) for n in range(1, len(parts))]


class Rules:
    """The rules of one directory. `below` returns those of a subdirectory."""

    def __init__(
        self, include: Include, own: tuple[Level, ...], git: tuple[Level, ...], *, only_included: bool = False
    ) -> None:
        self.include, self.own, self.git = include, own, git
        self.only_included = only_included

    def verdict(self, path: bytes, name: bytes, is_dir: bool) -> Verdict:
        if name.startswith(_HIDDEN):
            return "secret"  # a placeholder for a name with a secret, which could not be opened
        if self.include.holds(path, name, is_dir):
            return None
        if self.only_included:
            return "ignored"
        for level in self.own:
            ignored = level.verdict(path, name, is_dir)
            if ignored is not None:
                return ("secret" if level is SECRET_LEVEL else "ignored") if ignored else None
        for level in self.git:
            ignored = level.verdict(path, name, is_dir)
            if ignored is not None:
                return "ignored" if ignored else None
        return None

    def below(self, git: Level | None, own: Level | None) -> Rules:
        """These rules with the ignore files of a subdirectory, which come first."""
        if not git and not own:
            return self
        return Rules(
            self.include,
            (own, *self.own) if own else self.own,
            (git, *self.git) if git else self.git,
            only_included=self.only_included,
        )

    def inside_ignored(self) -> Rules:
        """The rules in an ignored directory that is entered because of an included path."""
        return self if self.only_included else Rules(self.include, self.own, self.git, only_included=True)


SECRET_LEVEL: Final = Level(b"", SECRETS)


def lines(data: bytes) -> list[bytes]:
    """The lines of an ignore file, at most MAX_LINES."""
    return data.split(b"\n", MAX_LINES)[:MAX_LINES]
