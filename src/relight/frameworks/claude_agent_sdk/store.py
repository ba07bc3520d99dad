"""`RelightSessionStore`: the SDK's `SessionStore` on a relight store, with all optional methods.

A transcript is a relight session: `relight list` shows it, `verify` checks it, `export` and `sweep` treat it like any
other. An append is one durable step before it returns. Lines with a `uuid` are taken once, however often and by
whomever they are given; concurrent processes are put in a row by their commits (`sessions/shared.py`). Nothing that is
stored is imported or run: lines are JSON.
"""

from __future__ import annotations

import os
import re
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
from relight.frameworks.claude_agent_sdk.transcripts import SUMMARY, Entry, Known
from relight.journal.codec import isolated
from relight.journal.fold import Fold
from relight.library.facade import Relight
from relight.sessions.shared import SharedSession, Write
from relight.values.info import SessionInfo

AGENT: Final = "claude-agent-sdk"
PROVIDER: Final = "anthropic"
PROJECT_LABEL: Final = "project"
MAX_OPEN: Final = 256
"""transcripts kept in memory between two appends"""
HOOK_SECONDS: Final = 10.0
"""how long a tool waits until its call is durable, before it is refused"""
_LOOK_SECONDS: Final = 0.002
_MAX_CALLS: Final = 10_000
_NOT_DURABLE: Final = (
    "relight: this call could not be made durable, so it was not started; nothing ran. "
    'Is session_store_flush="eager" set, and does the store answer?'
)
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]")
_T = TypeVar("_T")


class RelightSessionStore(SessionStore):
    """Give it to `ClaudeAgentOptions(session_store=...)`. Thread-safe; works under asyncio and trio.

    `workspace`: the agent's directory, captured beside its transcript as `rl.session(workspace=...)` does, at the
    moments that `snapshot` names. `labels` are given to every session it begins.
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
        self._rl = _opened(rl)
        self._workspace = workspace
        self._snapshot = snapshot
        self._labels = dict(labels or {})
        self._lease_seconds = lease_seconds
        self._open: OrderedDict[str, tuple[SharedSession, Known]] = OrderedDict()
        self._lock = Lock()
        self._durable: OrderedDict[str, None] = OrderedDict()
        """calls whose line is in the store, the latest ones"""

    def ref(self, session_id: str, project_key: str) -> str:
        """The name of the relight session of a transcript: for `relight show`, `rl.rewind`, `rl.restore`, ..."""
        return name_of(project_key, session_id)

    def close(self) -> None:
        """Give back what this process owns; the store goes on being usable."""
        with self._lock:
            opened, self._open = list(self._open.values()), OrderedDict()
        for joint, _ in opened:
            joint.close()

    # -- hooks ------------------------------------------------------------------------------------------------

    def hooks(self) -> dict[HookEvent, list[HookMatcher]]:
        """For `ClaudeAgentOptions(hooks=...)`: no tool starts before the line that asks for it is durable here.

        The SDK hands lines over a moment after Claude Code has written them, and a process that is killed in that
        moment would leave a tool that ran and that the store does not know of. Needs `session_store_flush="eager"`.
        """
        return {"PreToolUse": [HookMatcher(hooks=[self._before_tool], timeout=HOOK_SECONDS * 2, on_failure="block")]}

    async def _before_tool(self, told: HookInput, call: str | None, context: HookContext) -> HookJSONOutput:
        asked = cast("dict[str, Any]", told).get("tool_use_id") or call
        if asked is None:
            return {}  # nothing by which it could be known again
        with move_on_after(HOOK_SECONDS):
            while asked not in self._durable:
                await sleep(_LOOK_SECONDS)
            return {}
        decision: dict[str, Any] = {"hookEventName": "PreToolUse", "permissionDecision": "deny"}
        return cast("HookJSONOutput", {"hookSpecificOutput": {**decision, "permissionDecisionReason": _NOT_DURABLE}})

    def _know(self, lines: Sequence[Entry]) -> None:
        """These lines are in the store."""
        with self._lock:
            for call in transcripts.calls_of(lines):
                self._durable[call] = None
            while len(self._durable) > _MAX_CALLS:
                self._durable.popitem(last=False)

    # -- the protocol -----------------------------------------------------------------------------------------

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """One durable step with those entries that are not there yet, in the order of the calls."""
        if not entries:
            return
        joint, known = self._joint(key)
        lines = [_a_line(entry) for entry in entries]
        subpath = _subpath(key)
        summarise = partial(_summarised, _main(key))

        def decide(fold: Fold) -> Write | None:
            return known.append(fold, lines, subpath, summarise)

        begins = subpath is None and transcripts.begins(lines)
        asked = joint.enqueue(decide, begins=begins)  # here, before anything is awaited: this is the order of the calls

        def settle() -> None:
            try:
                asked.wait()
            except NotFound:
                if not begins:
                    raise  # the rest of a removed transcript: it does not come back
                joint.forget()
                joint.write(decide)
            self._know(lines)

        await _in_thread(settle)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """All entries of a transcript, checked by their digests; None where there are none."""
        joint, _ = self._joint(key)
        subpath = _subpath(key)

        def read(fold: Fold, _: object) -> list[Entry] | None:
            lines = fold.messages or None if subpath is None else transcripts.subagent(fold.state, subpath)
            return [isolated(line) for line in lines] if lines is not None else None

        found = await _in_thread(partial(joint.read, read))
        self._know(found or ())
        return cast("list[SessionStoreEntry] | None", found)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The main transcripts of a project."""
        found = await _in_thread(partial(self._sessions, project_key))
        return [{"session_id": info.key or "", "mtime": _mtime(info)} for info in found]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The SDK's summaries; each is read from the newest step of its session."""

        def read() -> list[SessionSummaryEntry]:
            told = [(info, self._summary(info)) for info in self._sessions(project_key)]
            return [_as_summary(info, summary) for info, summary in told if summary is not None]

        return await _in_thread(read)

    async def delete(self, key: SessionKey) -> None:
        """A transcript with its sub-agents, to the last byte; or one sub-agent's lines."""
        joint, _ = self._joint(key)
        subpath = _subpath(key)
        if subpath is None:
            await _in_thread(partial(joint.drop, remembered=True))
            return

        def forget() -> None:
            if joint.read(lambda fold, _: subpath in transcripts.subpaths(fold.state)):
                joint.write(lambda fold: transcripts.forget_subagent(fold, subpath))

        await _in_thread(forget)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The sub-agents of a transcript."""
        joint, _ = self._joint(_main(key))
        found = await _in_thread(partial(joint.read, lambda fold, _: transcripts.subpaths(fold.state)))
        return found or []

    # -- sessions ---------------------------------------------------------------------------------------------

    def _joint(self, key: SessionKey) -> tuple[SharedSession, Known]:
        project, session = _checked(key, "project_key"), _checked(key, "session_id")
        name = name_of(project, session)
        with self._lock:
            if name not in self._open:
                self._make_room()
                self._open[name] = (
                    self._rl.join(
                        name,
                        agent=AGENT,
                        provider=PROVIDER,
                        key=session,
                        labels={**self._labels, PROJECT_LABEL: project},
                        workspace=self._workspace,
                        snapshot=self._snapshot,
                        lease_seconds=self._lease_seconds,
                    ),
                    Known(),
                )
            self._open.move_to_end(name)
            return self._open[name]

    def _make_room(self) -> None:
        """Those that rest are opened again when they are asked for."""
        if len(self._open) < MAX_OPEN:
            return
        for name in [name for name, (joint, _) in self._open.items() if joint.is_idle][: MAX_OPEN // 4]:
            self._open.pop(name)[0].forget()

    def _sessions(self, project_key: str) -> list[SessionInfo]:
        found = self._rl.sessions(agent=AGENT, labels={PROJECT_LABEL: project_key})
        return [one for one in found if one.message_count and one.name == name_of(project_key, one.key or "")]

    def _summary(self, info: SessionInfo) -> dict[str, Any] | None:
        try:
            return self._told_summary(info)
        except NotFound:
            return None  # deleted since it was listed

    def _told_summary(self, info: SessionInfo) -> dict[str, Any] | None:
        for event in self._rl.tail(info.id, after=info.seq - 1):
            if SUMMARY in event.state and info.head == info.seq:
                return cast("dict[str, Any]", event.state[SUMMARY])
        return self._rl.load(info.id).state.get(SUMMARY)


def _opened(rl: object) -> Relight:
    if isinstance(rl, Relight):
        return rl
    hints = ["with relight.open() as rl: RelightSessionStore(rl)"]
    raise UsageError(f"a session store stands on what relight.open() gives, not on a {type(rl).__name__}", hints=hints)


def name_of(project_key: str, session_id: str) -> str:
    """The name of a transcript's session: its id, so that it can be found by it, and what tells projects apart."""
    told_apart = sha256(f"{len(project_key)}:{project_key}{session_id}".encode("utf-8", "surrogatepass")).hexdigest()
    readable = _ODD.sub("-", session_id)[:80].lstrip("._-")
    return f"{readable}.{told_apart[:12]}" if readable else told_apart[:32]


async def _in_thread(function: Callable[[], _T]) -> _T:
    """Who waits may be cancelled: what was asked for is done all the same."""
    return await to_thread.run_sync(function, abandon_on_cancel=True)


def _main(key: Mapping[str, Any]) -> SessionKey:
    return {"project_key": key["project_key"], "session_id": key["session_id"]}


def _checked(key: Mapping[str, Any], field: str) -> str:
    value = key.get(field)
    if not isinstance(value, str) or not value:
        raise UsageError(f"a session key needs a {field}, not {value!a}")
    return value


def _subpath(key: Mapping[str, Any]) -> str | None:
    subpath = key.get("subpath")
    if subpath is not None and (not isinstance(subpath, str) or not subpath):
        raise UsageError(f"a subpath is text, or left out for the main transcript; not {subpath!a}")
    return subpath


def _a_line(entry: Any) -> Entry:
    if not isinstance(entry, dict):
        raise UsageError(f"an entry is a dict, not {type(entry).__name__}")
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
