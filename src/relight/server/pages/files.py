"""View of differing files: which, by how much, and whether the diff is shown at once, on demand, or only as a size.

Files that may be executed later, and files left out of the snapshot, are always listed. Diff texts are made inert here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlencode

import msgspec

from relight.server.reading.inert import inert
from relight.text import format as words

if TYPE_CHECKING:
    from relight.files.diff import FileDiff

SHOWN_LINES: Final = 500
SHOWN_BYTES: Final = 256 * 1024
MAX_BYTES: Final = 5 * 1024 * 1024
MAX_FILES: Final = 500
EAGER: Final = 3
"""diffs that are sent with the page itself; the others are loaded when they scroll into view"""
_LETTERS: Final = {"added": ("A", "ok"), "changed": ("M", "ref"), "deleted": ("D", "bad"), "left out": ("-", "dim")}
_GENERATED: Final = re.compile(
    r"(^|/)(dist|vendor|node_modules|build)/|\.min\.|(^|/)(uv\.lock|package-lock\.json|yarn\.lock|pnpm-lock\.yaml"
    r"|poetry\.lock|Cargo\.lock|go\.sum|Gemfile\.lock|composer\.lock)$"
)


class FileLine(msgspec.Struct, frozen=True, kw_only=True):
    """One differing file in the list."""

    index: int
    root: str
    path: str
    raw: str
    """path without the prefix of the root"""
    letter: str
    role: str
    what: str
    counts: str
    note: str
    """why it is folded, or a warning"""
    risky: bool
    later: bool
    body: Literal["now", "soon", "ask", "none"]
    """now: with the page; soon: when scrolled into view; ask: on a click"""
    text: str = ""
    download: str = ""
    """address of the file itself, if its diff is not shown"""


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """All differences between two states."""

    lines: list[FileLine]
    left_out: list[tuple[str, str]]
    total: int
    added: int
    removed: int
    trouble: str = ""

    @property
    def hidden(self) -> int:
        return self.total - len(self.lines)

    @property
    def risky(self) -> list[FileLine]:
        """Files that some tool executes without being asked (hooks, configuration)."""
        return [line for line in self.lines if line.risky]


def is_generated(path: str) -> bool:
    """Whether a path looks generated: lock files, builds, vendored code."""
    return _GENERATED.search(path) is not None


def files_of(
    diffs: Sequence[FileDiff], *, later: frozenset[tuple[str, str]] = frozenset(), at: str = "", is_after: bool = True
) -> Files:
    """The list, sorted: files that may run later, then written ones, then generated ones.

    `at`: the checkpoint from which files can be downloaded; `is_after`: it is the later side of the comparison."""
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
                line = msgspec.structs.replace(line, body="none", note="its name is not valid UTF-8: use relight diff")
        elif line.body == "none" and at and one.kind == "file" and one.what != ("deleted" if is_after else "added"):
            query = urlencode({"root": one.root, "path": one.path})
            line = msgspec.structs.replace(line, download=f"/api/checkpoints/{at}/file?{query}")
        lines.append(line)
    return Files(
        lines=lines,
        left_out=[(one.path, one.kind) for one in diffs if one.what == "left out"],
        total=len(changed),
        added=sum(one.lines_added or 0 for one in changed),
        removed=sum(one.lines_removed or 0 for one in changed),
    )


def _is_no_text(path: str) -> bool:
    """Whether a path is not valid UTF-8, so that no URL can name it."""
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
        body, note = "none", f"{words.size(len(one.text))} of changes: use relight diff"
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
    """The unified diff with control characters made visible."""
    return inert(one.text or "")


def body_of(diffs: Sequence[FileDiff], root: str, path: str) -> str | None:
    """The diff of one file, for the request that loads it later; None if there is none to show."""
    for one in diffs:
        if (one.root, one.path) == (root, path) and one.text is not None and len(one.text) <= MAX_BYTES:
            return shown_text(one)
    return None


def diff_lines(text: str) -> list[tuple[str, str]]:
    """(CSS class, line) of a unified diff, for a page without scripts."""
    kinds = {"+": "add", "-": "del", "@": "hunk", "\\": "note"}
    lines = text.split("\n")
    kept = [line for number, line in enumerate(lines) if not (number < 2 and line[:3] in ("---", "+++"))]
    rows = [(kinds.get(line[:1], "ctx"), line) for line in kept if line or line is not kept[-1]]
    for before, after in _spaced(rows):
        rows[before], rows[after] = (f"{rows[before][0]} ws", rows[before][1]), (f"{rows[after][0]} ws", rows[after][1])
    return rows


def _spaced(rows: Sequence[tuple[str, str]]) -> Iterator[tuple[int, int]]:
    """Pairs of lines, one removed and one added, that differ only in white space."""
    runs = [(kind, [number for number, _ in run]) for kind, run in groupby(enumerate(rows), lambda one: one[1][0])]
    for (kind, old), (following, new) in pairwise(runs):
        if (kind, following) == ("del", "add") and len(old) == len(new):
            yield from ((a, b) for a, b in zip(old, new, strict=True) if _bare(rows[a][1]) == _bare(rows[b][1]))


def _bare(line: str) -> str:
    return "".join(line[1:].split())
