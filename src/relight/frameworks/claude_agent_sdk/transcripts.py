"""What an append of the Claude Agent SDK adds to a session. Pure: from the present state and entries to a write.

The lines of the main transcript are the session's messages, verbatim. A sub-agent's lines are part of the same
session, as state under `subagent:PATH#N`, where N counts the lines before them: so one session is all there is of a
conversation, it goes as a whole, and a sub-agent's calls are not taken for the main agent's. The summary that the SDK
folds from the lines is written with every step, so that the newest step alone tells it.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence, Set
from typing import Any, Final

from relight.journal.fold import Fold
from relight.journal.formats.claude_code import CLAUDE_CODE
from relight.sessions.shared import Write
from relight.values.status import StatusChange
from relight.values.step import Changes
from relight.values.usage import Usage, usage_seen

SUMMARY: Final = "summary"
_SUB: Final = "subagent:"
_SPOKEN: Final = ("user", "assistant")
_RESTS: Final = StatusChange(status="completed", reason="its turn is over")

Entry = dict[str, Any]
Summarise = Callable[[Any, Sequence[Entry]], dict[str, Any]]
"""the SDK's own fold: from the summary so far and new lines to the next one"""


class Known:
    """Which lines a state already holds, kept up with it as it grows."""

    def __init__(self) -> None:
        self._messages: list[Entry] | None = None
        self._counted = 0
        self._uuids: set[str] = set()
        self._told: dict[str, Usage] = {}
        """by reply: what was counted of it"""

    def follow(self, fold: Fold) -> None:
        """Take in what the state has got since; all of it where it is another one."""
        if fold.messages is not self._messages or len(fold.messages) < self._counted:
            self._messages, self._counted, self._uuids, self._told = fold.messages, 0, set(), {}
        for line in fold.messages[self._counted :]:
            self._uuids.update(uuids_of([line]))
            spent_by(line, self._told)
        self._counted = len(fold.messages)

    def append(self, fold: Fold, entries: Sequence[Entry], subpath: str | None, summarise: Summarise) -> Write | None:
        """The write that adds those entries that are not there yet; None where all are."""
        if subpath is not None:
            return _to_subagent(fold, entries, subpath)
        self.follow(fold)
        fresh = _fresh(entries, self._uuids)
        if not fresh:
            return None
        told = ChainMap[str, Usage]({}, self._told)
        spent = [usage for line in fresh if (usage := spent_by(line, told)) is not None]
        changes = Changes(
            messages=fresh,
            state={SUMMARY: summarise(fold.state.get(SUMMARY), fresh)},
            usage=sum(spent[1:], spent[0]) if spent else None,
        )
        return Write(changes=changes, ends=_RESTS if rests(fold, fresh) else None)


def _to_subagent(fold: Fold, entries: Sequence[Entry], subpath: str) -> Write | None:
    there = subagent(fold.state, subpath)
    fresh = _fresh(entries, uuids_of(there or ()))
    if not fresh:
        return None
    state: dict[str, Any] = {f"{_SUB}{subpath}#{len(there or ())}": fresh}
    if SUMMARY in fold.state:
        state[SUMMARY] = fold.state[SUMMARY]
    return Write(changes=Changes(state=state), kind="state", ends=_RESTS if rests(fold, ()) else None)


def forget_subagent(fold: Fold, subpath: str) -> Write | None:
    """The write that removes one sub-agent's lines; None where there are none."""
    keys = [key for key in fold.state if _subpath(key) == subpath]
    if not keys:
        return None
    return Write(changes=Changes(unset=keys), kind="state", ends=_RESTS if rests(fold, ()) else None)


def subagent(state: Mapping[str, Any], subpath: str) -> list[Entry] | None:
    """A sub-agent's lines in order; None where there are none."""
    keys = [key for key in state if _subpath(key) == subpath]
    return [entry for key in sorted(keys, key=_position) for entry in state[key]] if keys else None


def subpaths(state: Mapping[str, Any]) -> list[str]:
    """The sub-agents of a session, in the order they came."""
    return list(dict.fromkeys(path for key in state if (path := _subpath(key)) is not None))


def _subpath(key: str) -> str | None:
    return key[len(_SUB) :].rpartition("#")[0] if key.startswith(_SUB) else None


def _position(key: str) -> int:
    return int(key.rpartition("#")[2])


def uuids_of(entries: Iterable[Entry]) -> set[str]:
    """By which entries are known again. Titles, tags and marks have none."""
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
    """The tool calls that these lines ask for, by id."""
    return [site.id for entry in entries for site in CLAUDE_CODE.calls(entry)]


def begins(entries: Sequence[Entry]) -> bool:
    """May these entries begin a transcript? Lines of a conversation that stood elsewhere may not: their beginning was
    removed, and half of it must not come back."""
    return any(entry.get("parentUuid", "") is None for entry in entries) or not any(
        "parentUuid" in entry or "sessionId" in entry for entry in entries
    )


def rests(fold: Fold, fresh: Sequence[Entry]) -> bool:
    """With these lines added: did the model have the last word, and is no call open?"""
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
    """Each block of a reply is a line; all of them say why the reply ended."""
    message = line.get("message")
    return message.get("stop_reason") if isinstance(message, dict) else None


def spent_by(line: Entry, told: MutableMapping[str, Usage]) -> Usage | None:
    """What this line says about the cost of its reply that the lines before did not; `told` remembers it."""
    message = line.get("message")
    if line.get("type") != "assistant" or not isinstance(message, dict) or not isinstance(message.get("usage"), dict):
        return None
    reply = message.get("id")
    if not isinstance(reply, str):
        return None
    now = usage_seen(message["usage"])
    before = told.get(reply, Usage())
    more = Usage(
        input_tokens=max(0, now.input_tokens - before.input_tokens),
        output_tokens=max(0, now.output_tokens - before.output_tokens),
        cache_read_tokens=max(0, now.cache_read_tokens - before.cache_read_tokens),
        cache_write_tokens=max(0, now.cache_write_tokens - before.cache_write_tokens),
    )
    told[reply] = before + more
    return more if more != Usage() else None
