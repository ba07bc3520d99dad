"""Incremental version of `tree.entries` for a growing transcript.

A line that continues the active branch is appended; after any other line the whole tree is read again. The result is
that of `tree.entries` for all lines. Incremental, because a transcript of hours has many thousands of lines, and a tool
call waits while its hook reads the newest.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from relight.agents.claude_code import tree
from relight.ports.agent import Entry, Line
from relight.values.usage import Usage


class IncrementalTree:
    """The conversation entries of a growing transcript, updated incrementally."""

    def __init__(self, *, sidechain: bool = False) -> None:
        """`sidechain`: of a sub-agent's own transcript."""
        self._sidechain = sidechain
        self._seen = 0
        self._entries: list[Entry] = []
        self._told: dict[str, Usage] = {}
        self._reply = ""
        """id of the newest reply"""
        self._ending: int | None = None
        """index of the entry that ends this reply's turn, if one does"""
        self._recent: set[str] = set()
        """lines since the last message of either side: a child of one of them continues the branch"""
        self._is_bare = False
        """whether all of these are blocks of one reply and results of its calls"""
        self._replies: set[str] = set()
        """ids of all replies, on any branch"""
        self._asked: set[str] = set()
        """ids of the newest reply's calls"""
        self.version: str | None = None

    def entries(self, lines: Sequence[Line]) -> tuple[Entry, ...]:
        """The entries of all lines; those passed to the previous call must be unchanged."""
        fresh = lines[self._seen :]
        if len(lines) < self._seen or not all(self._add(line) for line in fresh):
            self._read_anew(lines)
        self._seen = len(lines)
        self.version = tree.last_text(fresh, "version") or self.version
        return tuple(self._entries)

    def _read_anew(self, lines: Sequence[Line]) -> None:
        self._entries, self._told = list(tree.entries(lines, sidechain=self._sidechain)), {}
        self._reply, self._ending, self._recent, self._asked = "", None, set(), set()
        self._replies = {tree.reply_of(line) for line in lines}
        exact = list(self._entries)
        for index, entry in enumerate(exact):
            self._count(entry.line)
            self._follow(entry.line, index)
        self._entries = exact  # `_follow` has changed ends of turns, which `tree.entries` knows exactly
        endings = (index for index, entry in enumerate(exact) if entry.ends_turn and self._is_current(entry.line))
        self._ending = max(endings, default=None)

    def _add(self, line: Line) -> bool:
        """Add a line that continues the branch, or is not part of it; False if neither is certain."""
        if not isinstance(line.get("uuid"), str) or not line["uuid"] or tree.is_sidechain(line) is not self._sidechain:
            return True
        if tree.is_boundary(line) or tree.is_summary(line) or line.get("type") in tree.PASSING:
            return False
        if line["uuid"] in self._recent or not self._hangs_here(line):
            return False
        reply = tree.reply_of(line)
        if reply and reply != self._reply and reply in self._replies:
            return False  # another block of an older reply: that branch may be the active one again
        if not self._asked.issuperset(tree.answers_of(line)):
            return False
        self._entries.append(tree.entry_of(line, usage=self._count(line), ends_turn=False))
        self._follow(line, len(self._entries) - 1)
        return True

    def _hangs_here(self, line: Line) -> bool:
        """Whether it is a child of the last line; a result may also be a child of its own call, if only blocks and
        results came since."""
        parent = line.get("parentUuid")
        if not self._entries:
            return False
        if parent == self._entries[-1].line["uuid"]:
            return True
        return parent in self._recent and self._is_bare and bool(tree.answers_of(line))

    def _count(self, line: Line) -> Usage | None:
        return tree.news(line, tree.reply_of(line), self._told)

    def _follow(self, line: Line, index: int) -> None:
        """Update what the next line may continue, and which entry ends the turn."""
        reply = tree.reply_of(line)
        begins = bool(reply) and reply != self._reply
        if begins or (line.get("type") == "user" and not tree.answers_of(line)):
            self._recent, self._asked = set(), set()
        if begins:
            self._ending = None
        if reply:
            self._reply = reply
            self._replies.add(reply)
            self._asked.update(tree.calls_of(line))
            self._end(self._ending, ends=False)  # only the last line of a reply can end its turn
            self._ending = index if tree.ends_turn(line) else None
            self._end(self._ending, ends=True)
        self._recent.add(line["uuid"])
        answers = tree.answers_of(line)
        fits = bool(reply) or (bool(answers) and self._asked.issuperset(answers))
        self._is_bare = (self._is_bare or begins) and fits

    def _is_current(self, line: Line) -> bool:
        return tree.reply_of(line) == self._reply

    def _end(self, index: int | None, *, ends: bool) -> None:
        if index is not None and self._entries[index].ends_turn is not ends:
            self._entries[index] = msgspec.structs.replace(self._entries[index], ends_turn=ends)
