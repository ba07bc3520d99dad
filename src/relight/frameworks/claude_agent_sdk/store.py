"""`RelightSessionStore`: the SDK's `SessionStore` on a relight store, with all optional methods.

A transcript is a relight session: `relight list` shows it, `verify` checks it, `export` and `sweep` treat it like any
other. An append is one durable step before it returns. A line with a `uuid` is stored once, however often it is
appended and by how many processes; commits order concurrent processes (`sessions/shared.py`). Nothing that is stored is
imported or run: lines are JSON.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from threading import Lock
from typing import Any, Final, TypeVar, cast

from anyio import move_on_after, sleep, to_thread
from claude_agent_sdk import HookMatcher, SessionStore, fold_session_summary
from claude_agent_sdk.types import (
    HookContext,
    HookEvent,
    HookInput,
    HookJSONOutput,
    SessionKey,
    SessionListSubkeysKey,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)

from relight.errors import NotFound, UsageError
from relight.frameworks.claude_agent_sdk import transcripts
from relight.frameworks.claude_agent_sdk.transcripts import SUMMARY, Entry, SeenLines
from relight.journal.codec import isolated
from relight.journal.fold import Fold
from relight.library.facade import Relight
from relight.library.shared_sessions import OpenSessions, check_library, readable_part
from relight.sessions.shared import SharedSession, Write
from relight.values.info import SessionInfo

AGENT: Final = "claude-agent-sdk"
PROVIDER: Final = "anthropic"
PROJECT_LABEL: Final = "project"
MAX_OPEN: Final = 256
"""transcripts that stay open between appends"""
HOOK_SECONDS: Final = 10.0
"""how long a tool waits for its call to be durable, before it is refused"""
_POLL_INTERVAL_SECONDS: Final = 0.002
_MAX_CALLS: Final = 10_000
_NOT_DURABLE: Final = (
    "relight: this call could not be made durable, so it was not started; nothing ran. "
    'Is session_store_flush="eager" set, and does the store answer?'
)
_T = TypeVar("_T")


class RelightSessionStore(SessionStore):
    """Pass it to `ClaudeAgentOptions(session_store=...)`. Thread-safe; works under asyncio and trio.

    `workspace`: the agent's directory, captured with the transcript like that of `rl.session(workspace=...)`, as often
    as `snapshot` says. `labels` are set on every session it creates.
    """

    def __init__(
        self,
        rl: Relight,
        *,
        workspace: str | os.PathLike[str] | Mapping[str, str] | None = None,
        snapshot: str | float = "step",
        labels: Mapping[str, str] | None = None,
        lease_seconds: float | None = None,
    ) -> None:
        self._rl = check_library(rl, "RelightSessionStore(rl)")
        self._workspace = workspace
        self._snapshot = snapshot
        self._labels = dict(labels or {})
        self._lease_seconds = lease_seconds
        self._open: OpenSessions[SeenLines] = OpenSessions(MAX_OPEN)
        self._lock = Lock()
        self._durable: OrderedDict[str, None] = OrderedDict()
        """ids of the latest calls whose line is durable"""

    def ref(self, session_id: str, project_key: str) -> str:
        """The name of the relight session of a transcript: for `relight show`, `rl.history.rewind`, ..."""
        return name_of(project_key, session_id)

    def close(self) -> None:
        """Release the leases of this process; the store stays usable."""
        self._open.close()

    # -- hooks ------------------------------------------------------------------------------------------------

    def hooks(self) -> dict[HookEvent, list[HookMatcher]]:
        """For `ClaudeAgentOptions(hooks=...)`: no tool starts before the line that requests it is durable.

        The SDK appends lines a moment after Claude Code has written them. If the process is killed in that moment, a
        tool has run that the store does not know of. Requires `session_store_flush="eager"`.
        """
        return {"PreToolUse": [HookMatcher(hooks=[self._before_tool], timeout=HOOK_SECONDS * 2, on_failure="block")]}

    async def _before_tool(self, given: HookInput, call: str | None, context: HookContext) -> HookJSONOutput:
        call_id = cast("dict[str, Any]", given).get("tool_use_id") or call
        if call_id is None:
            return {}  # without an id its line cannot be recognised
        with move_on_after(HOOK_SECONDS):
            while call_id not in self._durable:
                await sleep(_POLL_INTERVAL_SECONDS)
            return {}
        decision: dict[str, Any] = {"hookEventName": "PreToolUse", "permissionDecision": "deny"}
        return cast("HookJSONOutput", {"hookSpecificOutput": {**decision, "permissionDecisionReason": _NOT_DURABLE}})

    def _mark_durable(self, lines: Sequence[Entry]) -> None:
        """Remember the calls of lines that are durable."""
        with self._lock:
            for call in transcripts.calls_of(lines):
                self._durable[call] = None
            while len(self._durable) > _MAX_CALLS:
                self._durable.popitem(last=False)

    # -- the protocol -----------------------------------------------------------------------------------------

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Commit the entries that are not stored yet as one step; concurrent appends keep the order of the calls."""
        if not entries:
            return
        shared, known = self._shared(key)
        lines = [_a_line(entry) for entry in entries]
        subpath = _subpath(key)
        summarise = partial(_summarised, _main(key))

        def decide(fold: Fold) -> Write | None:
            return known.append(fold, lines, subpath, summarise)

        begins = subpath is None and transcripts.begins(lines)
        # Before the first await: two appends that are called one after the other are queued in this order, whichever
        # thread runs first.
        pending = shared.enqueue(decide, begins=begins)

        def settle() -> None:
            try:
                pending.wait()
            except NotFound:
                if not begins:
                    raise  # the rest of a transcript that was deleted: it must not come back without its beginning
                shared.forget()
                shared.write(decide)
            self._mark_durable(lines)

        await _in_thread(settle)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """All entries of a transcript, verified by their digests; None if there are none."""
        shared, _ = self._shared(key)
        subpath = _subpath(key)

        def read(fold: Fold, _: object) -> list[Entry] | None:
            lines = fold.messages or None if subpath is None else transcripts.subagent(fold.state, subpath)
            return [isolated(line) for line in lines] if lines is not None else None

        found = await _in_thread(partial(shared.read, read))
        self._mark_durable(found or ())
        return cast("list[SessionStoreEntry] | None", found)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """List the main transcripts of a project."""
        found = await _in_thread(partial(self._sessions, project_key))
        return [{"session_id": info.key or "", "mtime": _mtime(info)} for info in found]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """List the SDK's summaries of a project's transcripts, each read from the newest step of its session."""

        def read() -> list[SessionSummaryEntry]:
            found = [(info, self._summary(info)) for info in self._sessions(project_key)]
            return [_as_summary(info, summary) for info, summary in found if summary is not None]

        return await _in_thread(read)

    async def delete(self, key: SessionKey) -> None:
        """Delete a transcript with its sub-agents and all data, or the lines of one sub-agent."""
        shared, _ = self._shared(key)
        subpath = _subpath(key)
        if subpath is None:
            await _in_thread(partial(shared.drop, remembered=True))
            return

        def forget() -> None:
            if shared.read(lambda fold, _: subpath in transcripts.subpaths(fold.state)):
                shared.write(lambda fold: transcripts.forget_subagent(fold, subpath))

        await _in_thread(forget)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """List the sub-agents of a transcript."""
        shared, _ = self._shared(_main(key))
        found = await _in_thread(partial(shared.read, lambda fold, _: transcripts.subpaths(fold.state)))
        return found or []

    # -- sessions ---------------------------------------------------------------------------------------------

    def _shared(self, key: SessionKey) -> tuple[SharedSession, SeenLines]:
        project, session = _checked(key, "project_key"), _checked(key, "session_id")
        name = name_of(project, session)

        def begin() -> tuple[SharedSession, SeenLines]:
            shared = self._rl.sessions.shared(
                name,
                agent=AGENT,
                provider=PROVIDER,
                key=session,
                labels={**self._labels, PROJECT_LABEL: project},
                workspace=self._workspace,
                snapshot=self._snapshot,
                lease_seconds=self._lease_seconds,
            )
            return shared, SeenLines()

        return self._open.of(name, begin)

    def _sessions(self, project_key: str) -> list[SessionInfo]:
        found = self._rl.sessions.list(agent=AGENT, labels={PROJECT_LABEL: project_key})
        return [one for one in found if one.message_count and one.name == name_of(project_key, one.key or "")]

    def _summary(self, info: SessionInfo) -> dict[str, Any] | None:
        try:
            return self._read_summary(info)
        except NotFound:
            return None  # deleted since it was listed

    def _read_summary(self, info: SessionInfo) -> dict[str, Any] | None:
        for event in self._rl.history.events(info.id, after=info.seq - 1):
            if SUMMARY in event.state and info.head == info.seq:
                return cast("dict[str, Any]", event.state[SUMMARY])
        return self._rl.history.load(info.id).state.get(SUMMARY)


def name_of(project_key: str, session_id: str) -> str:
    """The session's name: the readable part of the transcript's id, and a digest that distinguishes projects."""
    digest = sha256(f"{len(project_key)}:{project_key}{session_id}".encode("utf-8", "surrogatepass")).hexdigest()
    readable = readable_part(session_id, length=80)
    return f"{readable}.{digest[:12]}" if readable else digest[:32]


async def _in_thread(function: Callable[[], _T]) -> _T:
    """Run in a thread. If the caller is cancelled, the work is still completed."""
    return await to_thread.run_sync(function, abandon_on_cancel=True)


def _main(key: Mapping[str, Any]) -> SessionKey:
    return {"project_key": key["project_key"], "session_id": key["session_id"]}


def _checked(key: Mapping[str, Any], field: str) -> str:
    value = key.get(field)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{field} of a session key must be text, not {value!r}")
    return value


def _subpath(key: Mapping[str, Any]) -> str | None:
    subpath = key.get("subpath")
    if subpath is not None and (not isinstance(subpath, str) or not subpath):
        raise UsageError(f"subpath must be text, or be left out for the main transcript; not {subpath!r}")
    return subpath


def _a_line(entry: Any) -> Entry:
    if not isinstance(entry, dict):
        raise UsageError(f"an entry must be a dict, not {type(entry).__name__}")
    return isolated(entry)


def _summarised(key: SessionKey, before: Any, fresh: Sequence[Entry]) -> dict[str, Any]:
    previous: SessionSummaryEntry | None = None
    if isinstance(before, dict):
        previous = {"session_id": key["session_id"], "mtime": 0, "data": isolated(before)}
    return dict(fold_session_summary(previous, key, cast("list[SessionStoreEntry]", list(fresh)))["data"])


def _as_summary(info: SessionInfo, data: dict[str, Any]) -> SessionSummaryEntry:
    return {"session_id": info.key or "", "mtime": _mtime(info), "data": data}


def _mtime(info: SessionInfo) -> int:
    return int(info.updated_at.timestamp() * 1000)
