"""`RelightSession`: the SDK's `Session` on a relight store, with branches, and with runs that wait for a decision.

A conversation is a relight session: `relight list` shows it, `verify` checks it, `export` and `sweep` treat it like any
other. `add_items` is one durable step before it returns; nothing that is stored is imported or run. Several processes
may use the same conversation: their commits order what they add (`sessions/shared.py`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from typing import Any, Final, cast

from agents import Agent, RunState
from agents.items import ToolApprovalItem, TResponseInputItem
from agents.memory import SessionSettings
from agents.memory.session import SessionABC
from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

from relight.errors import NotFound, UsageError
from relight.frameworks.openai_agents import items as decide
from relight.frameworks.openai_agents.awaiting import in_thread, read_newest, write, write_if_exists
from relight.frameworks.openai_agents.branches import MAIN, Branches
from relight.frameworks.openai_agents.items import Item, Waiting
from relight.journal.codec import isolated
from relight.journal.fold import Fold
from relight.library.facade import Relight
from relight.library.shared_sessions import check_library, readable_part
from relight.sessions.shared import SharedSession, Write
from relight.values.call import Call
from relight.values.checkpoint import Checkpoint
from relight.values.ref import check_name
from relight.values.usage import usage_seen

AGENT: Final = "openai-agents"
PROVIDER: Final = "openai-responses"
_MADE: Final = re.compile(r"(?:.*\.)?(?:branch-)?[0-9a-f]{12}")
"""names that this module generates; an id of this form is not used as a name, so that ids cannot collide with them"""


class RelightSession(Branches, SessionABC):
    """Pass it to `Runner.run(..., session=...)`. Thread-safe.

    `workspace`: a directory that is captured with the conversation, as often as `snapshot` says.
    """

    def __init__(
        self,
        session_id: str,
        rl: Relight,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        workspace: str | os.PathLike[str] | Mapping[str, str] | None = None,
        snapshot: str | float = "step",
        labels: Mapping[str, str] | None = None,
        lease_seconds: float | None = None,
    ) -> None:
        if not isinstance(session_id, str) or not session_id:
            raise UsageError(f"session_id must be text, not {session_id!r}")
        self.session_id = session_id
        self.session_settings = (
            coerce_session_settings(session_settings) if session_settings is not None else SessionSettings()
        )
        self._rl = check_library(rl, 'RelightSession("user-42", rl)')
        self._options: dict[str, Any] = {
            "labels": dict(labels or {}),
            "workspace": workspace,
            "snapshot": snapshot,
            "lease_seconds": lease_seconds,
        }
        self._begun: set[str] = set()
        """calls of a waiting run that this program has begun, and may run"""
        self._begin_branches(self._join(name_of(session_id)))

    @property
    def ref(self) -> str:
        """The relight session of the current branch: for `relight show`, `rl.history.rewind`, ..."""
        return self._shared.name

    def close(self) -> None:
        """Release the leases of this process; the session stays usable."""
        for shared in self._shared_sessions.values():
            shared.close()

    def _join(self, name: str, *, begins: bool = True) -> SharedSession:
        return self._rl.sessions.shared(
            name, agent=AGENT, provider=PROVIDER, key=self.session_id, begins=begins, **self._options
        )

    # -- the protocol -----------------------------------------------------------------------------------------

    async def get_items(self, limit: int | None = None, branch_id: str | None = None) -> list[TResponseInputItem]:
        """The items of the conversation, or its latest ones, oldest first."""
        count = resolve_session_limit(limit, self.session_settings)
        shared = await self._shared_of(branch_id)

        def read(fold: Fold, _: object) -> list[Item]:
            items = fold.messages
            if count is not None and count >= 0:
                items = items[max(0, len(items) - count) :]
            return [isolated(item) for item in items]

        found = await read_newest(shared, read)
        if found is None and branch_id is None and await self._return_to_main():
            found = await read_newest(self._shared, read)
        return cast("list[TResponseInputItem]", found or [])

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items as one durable step; concurrent calls keep their order."""
        given = [_an_item(item) for item in items]
        if not given:
            return
        try:
            await write(self._shared, lambda fold: decide.add(fold, given))
        except NotFound:
            # The branch was removed. Only if the whole conversation was cleared does the item belong to main.
            if not await self._return_to_main():
                raise
            await write(self._shared, lambda fold: decide.add(fold, given))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove and return the newest item; it stays in the journal."""
        popped: list[Item] = []

        def plan(fold: Fold) -> Write | None:
            popped[:] = [isolated(fold.messages[-1])] if fold.messages else []
            return decide.pop(fold)

        await write_if_exists(self._shared, plan)
        return cast("TResponseInputItem", popped[0]) if popped else None

    async def clear_session(self) -> None:
        """Remove all items and branches. Earlier checkpoints stay, for `relight rewind`; `delete` removes them."""
        await self._clear_branches()
        await write_if_exists(self._main, decide.clear)

    async def delete(self) -> bool:
        """Remove the conversation with its branches and all data; False if there was none."""
        self._to_main()
        self._shared_sessions = {MAIN: self._main}
        return await in_thread(partial(self._main.drop, with_forks=True))

    # -- a run that waits -------------------------------------------------------------------------------------

    async def save_run_state(self, run: Any, **to_json: Any) -> Checkpoint:
        """Save an interrupted run (a result, or its `RunState`) as a checkpoint, with the decisions about its calls.

        While a call is undecided the session is `waiting`, and `relight approve` or `relight deny` decide. Save the run
        again after deciding: approved calls are then recorded as begun, before their tools run. InDoubt if another
        program has begun one already: it may have run.
        """
        state: RunState[Any, Any] = run.to_state() if hasattr(run, "to_state") else run
        saved = isolated(state.to_json(**to_json))
        calls = [_waiting(state, item) for item in state.get_interruptions()]
        begun, name = frozenset(self._begun), self.ref
        checkpoint = await write(self._shared, partial(decide.save_run, run=saved, calls=calls, begun=begun, name=name))
        assert checkpoint is not None
        self._begun.update(one.call for one in calls if one.approved)
        return checkpoint

    async def load_run_state(self, agent: Agent[Any], **from_json: Any) -> RunState[Any, Agent[Any]] | None:
        """The waiting run, to continue with `Runner.run(agent, state, session=...)`; None if there is none.

        Decisions made by `relight approve` or `relight deny` are applied to it.
        """
        run, answers = await read_newest(self._shared, _run_and_answers) or (None, {})
        if run is None:
            return None
        state = await RunState.from_json(agent, run, **from_json)
        for item in state.get_interruptions():
            answer = answers.get(_waiting(state, item).question)
            if answer == "allow":
                state.approve(item)
            elif answer == "deny":
                state.reject(item)
        return state

    async def clear_run_state(self) -> None:
        """Discard the waiting run."""
        await write_if_exists(self._shared, decide.forget_run)

    async def store_run_usage(self, result: Any) -> None:
        """Record the usage of a run, as `relight list` shows it; call it once per run."""
        spent = result.context_wrapper.usage
        details = {
            outer: {inner: getattr(getattr(spent, outer, None), inner, None)}
            for outer, inner in (
                ("input_tokens_details", "cached_tokens"),
                ("output_tokens_details", "reasoning_tokens"),
            )
        }
        usage = usage_seen({"input_tokens": spent.input_tokens, "output_tokens": spent.output_tokens, **details})
        await write_if_exists(self._shared, partial(decide.count, usage=usage))

    async def in_doubt(self) -> list[Call]:
        """Approved calls that may have run when their program died; `relight settle` settles one."""

        def read() -> list[Call]:
            try:
                return [call for call in self._rl.history.load(self.ref).calls if call.in_doubt]
            except NotFound:
                return []

        return await in_thread(read)


def name_of(session_id: str) -> str:
    """The session's name: the conversation's id if it is a valid name, else one generated from it."""
    if _can_be_a_name(session_id):
        return session_id
    digest = sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    readable = readable_part(session_id, length=80)
    return f"{readable}.{digest}" if readable else digest


def _can_be_a_name(session_id: str) -> bool:
    try:
        return _MADE.fullmatch(check_name(session_id, "session id")) is None
    except UsageError:
        return False


def _run_and_answers(fold: Fold, _: object) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    run = decide.waiting_run(fold)
    return (isolated(run) if run is not None else None), dict(fold.answers)


def _waiting(state: RunState[Any, Any], item: ToolApprovalItem) -> Waiting:
    call, tool = item.call_id or "", item.tool_name or ""
    context = state._context
    approved = context.is_tool_approved(tool, call) if context is not None else None
    return Waiting(call=call, tool=tool, arguments=item.arguments or "", approved=approved)


def _an_item(item: Any) -> Item:
    if not isinstance(item, dict):
        raise UsageError(f"an item must be a dict, not {type(item).__name__}", hints=["result.to_input_list()"])
    return isolated(cast("Item", item))
