"""Files on a page: which differ, by how much, and whose text is shown at once, on a click, or only as a size.

What may run later and what was left out is never folded away. A text that goes to the page is inert already.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlencode

import msgspec

from relight.server.pages.inert import inert
from relight.text import format as words

if TYPE_CHECKING:
    from relight.files.diff import FileDiff

SHOWN_LINES: Final = 500
SHOWN_BYTES: Final = 256 * 1024
MAX_BYTES: Final = 5 * 1024 * 1024
MAX_FILES: Final = 500
EAGER: Final = 3
"""bodies that come with the page itself; the others come when they are looked at"""
_LETTERS: Final = {"added": ("A", "ok"), "changed": ("M", "ref"), "deleted": ("D", "bad"), "left out": ("-", "dim")}
_GENERATED: Final = re.compile(
    r"(^|/)(dist|vendor|node_modules|build)/|\.min\.|(^|/)(uv\.lock|package-lock\.json|yarn\.lock|pnpm-lock\.yaml"
    r"|poetry\.lock|Cargo\.lock|go\.sum|Gemfile\.lock|composer\.lock)$"
)


class FileLine(msgspec.Struct, frozen=True, kw_only=True):
    """One file that differs."""

    index: int
    root: str
    path: str
    raw: str
    """without the root's name before it"""
    letter: str
    role: str
    what: str
    counts: str
    note: str
    """why it is folded, or what to know"""
    risky: bool
    later: bool
    body: Literal["now", "soon", "ask", "none"]
    """with the page, when looked at, on a click, not at all"""
    text: str = ""
    download: str = ""
    """the address of the file itself, where its difference is not shown"""


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """All that differs between two states."""

    lines: list[FileLine]
    left_out: list[tuple[str, str]]
    total: int
    added: int
    removed: int
    trouble: str = ""

    @property
    def hidden(self) -> int:
        """Files that are not listed."""
        return self.total - len(self.lines)

    @property
    def risky(self) -> list[FileLine]:
        """Those that some tool executes by itself."""
        return [line for line in self.lines if line.risky]


def is_generated(path: str) -> bool:
    """Written by a tool; nobody reads it first."""
    return _GENERATED.search(path) is not None


def files_of(
    diffs: Sequence[FileDiff], *, later: frozenset[tuple[str, str]] = frozenset(), at: str = "", is_after: bool = True
) -> Files:
    """Dangers first, then what a person wrote, then what a tool generated. `at`: the checkpoint whose files can be had;
    `is_after`: they are the later side."""
    changed = [one for one in diffs if one.what != "left out"]
    order = sorted(changed, key=lambda one: (not one.may_run_later, is_generated(one.path), one.root, one.path))
    many = len({one.root for one in changed}) > 1
    lines: list[FileLine] = []
    eager = 0
    for index, one in enumerate(order[:MAX_FILES]):
        line = _line(index, one, many=many, later=(one.root, one.path) in later)
        if line.body == "soon" and eager < EAGER:
            eager += 1
            line = msgspec.structs.replace(line, body="now", text=shown_text(one))
        if _is_no_text(one.path):
            if line.body in ("soon", "ask"):
                line = msgspec.structs.replace(line, body="none", note="its name is no text: relight diff shows it")
        elif line.body == "none" and at and one.kind == "file" and one.what != ("deleted" if is_after else "added"):
            asked = urlencode({"root": one.root, "path": one.path})
            line = msgspec.structs.replace(line, download=f"/api/checkpoints/{at}/file?{asked}")
        lines.append(line)
    return Files(
        lines=lines,
        left_out=[(one.path, one.kind) for one in diffs if one.what == "left out"],
        total=len(changed),
        added=sum(one.lines_added or 0 for one in changed),
        removed=sum(one.lines_removed or 0 for one in changed),
    )


def _is_no_text(path: str) -> bool:
    """No address can name it."""
    return any("\ud800" <= one <= "\udfff" for one in path)


def _line(index: int, one: FileDiff, *, many: bool, later: bool) -> FileLine:
    letter, role = _LETTERS[one.what]
    lines = (one.lines_added or 0) + (one.lines_removed or 0)
    body: Literal["soon", "ask", "none"] = "soon"
    note = ""
    if one.text is None:
        body = "none"
        note = f"{one.kind}, {words.size(max(one.size_before, one.size_after))}"
        note += "" if one.kind != "file" else "; not text, or too large to compare"
    elif is_generated(one.path) and not one.may_run_later:
        body, note = "ask", "generated, folded"
    elif lines > SHOWN_LINES or len(one.text) > SHOWN_BYTES:
        body, note = "ask", f"{lines:,} changed lines, folded"
    if one.text is not None and len(one.text) > MAX_BYTES:
        body, note = "none", f"{words.size(len(one.text))} of changes: relight diff shows them"
    return FileLine(
        index=index,
        root=one.root,
        path=f"{one.root}:{one.path}" if many else one.path,
        raw=one.path,
        letter=letter,
        role=role,
        what=one.what,
        counts=f"+{one.lines_added} −{one.lines_removed}" if one.text is not None else "",
        note=note,
        risky=one.may_run_later,
        later=later,
        body=body,
    )


def shown_text(one: FileDiff) -> str:
    """A unified diff in which every character only shows itself; line feeds stay what they are."""
    return inert(one.text or "")


def body_of(diffs: Sequence[FileDiff], root: str, path: str) -> str | None:
    """The text of one file's difference, for a body that was not sent with the page."""
    for one in diffs:
        if (one.root, one.path) == (root, path) and one.text is not None and len(one.text) <= MAX_BYTES:
            return shown_text(one)
    return None


def diff_lines(text: str) -> list[tuple[str, str]]:
    """(class, line) of a unified diff, for a page without scripts."""
    kinds = {"+": "add", "-": "del", "@": "hunk", "\\": "note"}
    lines = text.split("\n")
    kept = [line for place, line in enumerate(lines) if not (place < 2 and line[:3] in ("---", "+++"))]
    told = [(kinds.get(line[:1], "ctx"), line) for line in kept if line or line is not kept[-1]]
    for before, after in _spaced(told):
        told[before], told[after] = (f"{told[before][0]} ws", told[before][1]), (f"{told[after][0]} ws", told[after][1])
    return told


def _spaced(told: Sequence[tuple[str, str]]) -> Iterator[tuple[int, int]]:
    """Pairs of lines, one removed and one added, that differ by nothing but white space."""
    runs = [(kind, [place for place, _ in run]) for kind, run in groupby(enumerate(told), lambda one: one[1][0])]
    for (kind, old), (following, new) in pairwise(runs):
        if (kind, following) == ("del", "add") and len(old) == len(new):
            yield from ((a, b) for a, b in zip(old, new, strict=True) if _bare(told[a][1]) == _bare(told[b][1]))


def _bare(line: str) -> str:
    return "".join(line[1:].split())
