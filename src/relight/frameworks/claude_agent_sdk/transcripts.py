"""Writes of the Claude Agent SDK's appends, computed from the present state and the new entries. Pure.

The lines of the main transcript are the session's messages, verbatim. The lines of a sub-agent are state of the same
session, under `subagent:PATH#N` with N lines before them: so a conversation is one session, is deleted as a whole, and
a sub-agent's calls are not mistaken for the main agent's. The SDK's summary is written with every step, so that it can
be read from the newest step alone.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence, Set
from typing import Any, Final

from relight.journal.fold import Fold
from relight.journal.formats.registry import by_name
from relight.sessions.shared import Write
from relight.values.status import StatusChange
from relight.values.step import Changes
from relight.values.usage import Usage, usage_seen

SUMMARY: Final = "summary"
_SUB: Final = "subagent:"
_SPOKEN: Final = ("user", "assistant")
_IDLE: Final = StatusChange(status="completed", reason="its turn is over")

Entry = dict[str, Any]
Summarise = Callable[[Any, Sequence[Entry]], dict[str, Any]]
"""the SDK's fold: (summary so far, new lines) -> next summary"""


class SeenLines:
    """Index of the lines that a session has, extended as it grows."""

    def __init__(self) -> None:
        self._messages: list[Entry] | None = None
        self._counted = 0
        self._uuids: set[str] = set()
        self._usage: dict[str, Usage] = {}
        """reply id -> usage that was counted of it"""

    def follow(self, fold: Fold) -> None:
        """Index the lines that were added since the last call."""
        # The fold extends its list in place; another list means another state (a reset), to be indexed again.
        if fold.messages is not self._messages or len(fold.messages) < self._counted:
            self._messages, self._counted, self._uuids, self._usage = fold.messages, 0, set(), {}
        for line in fold.messages[self._counted :]:
            self._uuids.update(uuids_of([line]))
            spent_by(line, self._usage)
        self._counted = len(fold.messages)

    def append(self, fold: Fold, entries: Sequence[Entry], subpath: str | None, summarise: Summarise) -> Write | None:
        """The write that adds the entries that are not stored yet; None if all are."""
        if subpath is not None:
            return _to_subagent(fold, entries, subpath)
        self.follow(fold)
        fresh = _fresh(entries, self._uuids)
        if not fresh:
            return None
        # Counted in an overlay: the commit may be refused, and the index must then not know these lines.
        counted = ChainMap[str, Usage]({}, self._usage)
        spent = [usage for line in fresh if (usage := spent_by(line, counted)) is not None]
        changes = Changes(
            messages=fresh,
            state={SUMMARY: summarise(fold.state.get(SUMMARY), fresh)},
            usage=sum(spent[1:], spent[0]) if spent else None,
        )
        return Write(changes=changes, ends=_IDLE if is_idle(fold, fresh) else None)


def _to_subagent(fold: Fold, entries: Sequence[Entry], subpath: str) -> Write | None:
    there = subagent(fold.state, subpath)
    fresh = _fresh(entries, uuids_of(there or ()))
    if not fresh:
        return None
    state: dict[str, Any] = {f"{_SUB}{subpath}#{len(there or ())}": fresh}
    if SUMMARY in fold.state:
        state[SUMMARY] = fold.state[SUMMARY]
    return Write(changes=Changes(state=state), kind="state", ends=_IDLE if is_idle(fold, ()) else None)


def forget_subagent(fold: Fold, subpath: str) -> Write | None:
    """The write that removes one sub-agent's lines; None if there are none."""
    keys = [key for key in fold.state if _subpath(key) == subpath]
    if not keys:
        return None
    return Write(changes=Changes(unset=keys), kind="state", ends=_IDLE if is_idle(fold, ()) else None)


def subagent(state: Mapping[str, Any], subpath: str) -> list[Entry] | None:
    """A sub-agent's lines in order; None if there are none."""
    keys = [key for key in state if _subpath(key) == subpath]
    return [entry for key in sorted(keys, key=_position) for entry in state[key]] if keys else None


def subpaths(state: Mapping[str, Any]) -> list[str]:
    """The sub-agents of a session, in order of appearance."""
    return list(dict.fromkeys(path for key in state if (path := _subpath(key)) is not None))


def _subpath(key: str) -> str | None:
    return key[len(_SUB) :].rpartition("#")[0] if key.startswith(_SUB) else None


def _position(key: str) -> int:
    return int(key.rpartition("#")[2])


def uuids_of(entries: Iterable[Entry]) -> set[str]:
    """The uuids of entries; titles, tags and marks have none."""
    return {entry["uuid"] for entry in entries if isinstance(entry.get("uuid"), str)}


def _fresh(entries: Sequence[Entry], known: Set[str]) -> list[Entry]:
    seen: set[str] = set()
    fresh = []
    for entry in entries:
        mark = entry.get("uuid")
        if isinstance(mark, str):
            if mark in known or mark in seen:
                continue
            seen.add(mark)
        fresh.append(entry)
    return fresh


def calls_of(entries: Iterable[Entry]) -> list[str]:
    """The ids of the tool calls in these lines."""
    lines = by_name("claude_code")
    return [site.id for entry in entries for site in lines.calls(entry)]


def begins(entries: Sequence[Entry]) -> bool:
    """Whether these entries may begin a transcript. Lines that continue a conversation may not: its beginning was
    deleted, and the rest must not come back without it."""
    return any(entry.get("parentUuid", "") is None for entry in entries) or not any(
        "parentUuid" in entry or "sessionId" in entry for entry in entries
    )


def is_idle(fold: Fold, fresh: Sequence[Entry]) -> bool:
    """Whether, with these lines added, the last message is the model's and no call is open."""
    format = fold.format_with(fresh)
    opened = {slot.site.id for slot in fold.open_slots()}
    for line in fresh:
        opened.update(site.id for site in format.calls(line))
        opened.difference_update(format.answers(line))
    if opened:
        return False
    for lines in (fresh, fold.messages):
        for line in reversed(lines):
            if line.get("type") in _SPOKEN:
                return line.get("type") == "assistant" and _stop_reason(line) != "tool_use"
    return False


def _stop_reason(line: Entry) -> Any:
    # Each block of a reply is a line of its own; all of them have the stop reason of the reply.
    message = line.get("message")
    return message.get("stop_reason") if isinstance(message, dict) else None


def spent_by(line: Entry, counted: MutableMapping[str, Usage]) -> Usage | None:
    """The usage of the line's reply that earlier lines have not reported; updates `counted`."""
    message = line.get("message")
    if line.get("type") != "assistant" or not isinstance(message, dict) or not isinstance(message.get("usage"), dict):
        return None
    reply = message.get("id")
    if not isinstance(reply, str):
        return None
    now = usage_seen(message["usage"])
    before = counted.get(reply, Usage())
    more = Usage(
        input_tokens=max(0, now.input_tokens - before.input_tokens),
        output_tokens=max(0, now.output_tokens - before.output_tokens),
        cache_read_tokens=max(0, now.cache_read_tokens - before.cache_read_tokens),
        cache_write_tokens=max(0, now.cache_write_tokens - before.cache_write_tokens),
    )
    counted[reply] = before + more
    return more if more != Usage() else None
