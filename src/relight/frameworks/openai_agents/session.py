"""`RelightSession`: the SDK's `Session` on a relight store, with branches, and with runs that wait for a decision.

A conversation is a relight session: `relight list` shows it, `verify` checks it, `export` and `sweep` treat it like any
other. `add_items` is one durable step before it returns; nothing that is stored is imported or run. Several processes
may use the same conversation: what they add is put in a row by their commits (`sessions/shared.py`).
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
from relight.frameworks.openai_agents.awaiting import in_thread, look, write, write_if_there
from relight.frameworks.openai_agents.branches import MAIN, Branches
from relight.frameworks.openai_agents.items import Item, Waiting
from relight.journal.codec import isolated
from relight.journal.fold import Fold
from relight.library.facade import Relight
from relight.sessions.shared import SharedSession, Write
from relight.values.call import Call
from relight.values.checkpoint import Checkpoint
from relight.values.ref import check_name
from relight.values.usage import usage_seen

AGENT: Final = "openai-agents"
PROVIDER: Final = "openai-responses"
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]")
_MADE: Final = re.compile(r"(?:.*\.)?(?:branch-)?[0-9a-f]{12}")
"""names that are made here: an id that looks like one gets another name, so that no id leads to another's session"""


class RelightSession(Branches, SessionABC):
    """Give it to `Runner.run(..., session=...)`. Thread-safe.

    `workspace`: a directory that is captured beside the conversation, at the moments that `snapshot` names.
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
            raise UsageError(f"a session id is text, not {session_id!a}")
        self.session_id = session_id
        self.session_settings = (
            coerce_session_settings(session_settings) if session_settings is not None else SessionSettings()
        )
        self._rl = _opened(rl)
        self._options: dict[str, Any] = {
            "labels": dict(labels or {}),
            "workspace": workspace,
            "snapshot": snapshot,
            "lease_seconds": lease_seconds,
        }
        self._begun: set[str] = set()
        """calls of a waiting run whose tools this program may run"""
        self._begin_branches(self._join(name_of(session_id)))

    @property
    def ref(self) -> str:
        """The relight session of the current branch: for `relight show`, `rl.rewind`, `rl.restore`, ..."""
        return self._joint.name

    def close(self) -> None:
        """Give back what this process owns; the session goes on being usable."""
        for joint in self._joints.values():
            joint.close()

    def _join(self, name: str, *, begins: bool = True) -> SharedSession:
        return self._rl.join(name, agent=AGENT, provider=PROVIDER, key=self.session_id, begins=begins, **self._options)

    # -- the protocol -----------------------------------------------------------------------------------------

    async def get_items(self, limit: int | None = None, branch_id: str | None = None) -> list[TResponseInputItem]:
        """The conversation, or its latest items, oldest first."""
        most = resolve_session_limit(limit, self.session_settings)
        joint = await self._joint_of(branch_id)

        def read(fold: Fold, _: object) -> list[Item]:
            items = fold.messages
            if most is not None and most >= 0:
                items = items[max(0, len(items) - most) :]
            return [isolated(item) for item in items]

        found = await look(joint, read)
        if found is None and branch_id is None and await self._is_back_on_main():
            found = await look(self._joint, read)
        return cast("list[TResponseInputItem]", found or [])

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """One durable step, in the order of the calls."""
        given = [_an_item(item) for item in items]
        if not given:
            return
        try:
            await write(self._joint, lambda fold: decide.add(fold, given))
        except NotFound:
            if not await self._is_back_on_main():
                raise
            await write(self._joint, lambda fold: decide.add(fold, given))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item away and give it back; it stays in the journal."""
        popped: list[Item] = []

        def plan(fold: Fold) -> Write | None:
            popped[:] = [isolated(fold.messages[-1])] if fold.messages else []
            return decide.pop(fold)

        await write_if_there(self._joint, plan)
        return cast("TResponseInputItem", popped[0]) if popped else None

    async def clear_session(self) -> None:
        """Empty the conversation and end its branches. The checkpoints before stay: `relight rewind`, or `delete`."""
        await self._clear_branches()
        await write_if_there(self._main, decide.clear)

    async def delete(self) -> bool:
        """Remove the conversation with its branches, to the last byte; False where there was none."""
        self._to_main()
        self._joints = {MAIN: self._main}
        return await in_thread(partial(self._main.drop, with_forks=True))

    # -- a run that waits -------------------------------------------------------------------------------------

    async def save_run_state(self, run: Any, **to_json: Any) -> Checkpoint:
        """Keep an interrupted run (a result, or its `RunState`) as a checkpoint, with what was decided about it.

        While a call is undecided the session is `waiting`, and `relight approve` or `relight deny` decide. Save it
        again after deciding: what was approved is then known to have begun, before its tool runs. InDoubt where
        another program has begun it already: it may have run.
        """
        state: RunState[Any, Any] = run.to_state() if hasattr(run, "to_state") else run
        saved = isolated(state.to_json(**to_json))
        calls = [_waiting(state, item) for item in state.get_interruptions()]
        begun, name = frozenset(self._begun), self.ref
        checkpoint = await write(self._joint, partial(decide.save_run, run=saved, calls=calls, begun=begun, name=name))
        assert checkpoint is not None
        self._begun.update(one.call for one in calls if one.approved)
        return checkpoint

    async def load_run_state(self, agent: Agent[Any], **from_json: Any) -> RunState[Any, Agent[Any]] | None:
        """The run that waits, to go on with `Runner.run(agent, state, session=...)`; None where none does.

        What a person decided by `relight approve` or `relight deny` is applied to it.
        """
        run, answers = await look(self._joint, _run_and_answers) or (None, {})
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
        """The run that waits is given up."""
        await write_if_there(self._joint, decide.forget_run)

    async def store_run_usage(self, result: Any) -> None:
        """Count what a run cost with the session, as `relight list` shows it; call it once a run."""
        spent = result.context_wrapper.usage
        cached = getattr(getattr(spent, "input_tokens_details", None), "cached_tokens", None)
        counts = {"input_tokens": spent.input_tokens, "output_tokens": spent.output_tokens}
        usage = usage_seen({**counts, "input_tokens_details": {"cached_tokens": cached}})
        await write_if_there(self._joint, partial(decide.count, usage=usage))

    async def in_doubt(self) -> list[Call]:
        """Calls that were approved and may have run when their program died; `relight settle` decides about one."""

        def read() -> list[Call]:
            try:
                return [call for call in self._rl.load(self.ref).calls if call.in_doubt]
            except NotFound:
                return []

        return await in_thread(read)


def name_of(session_id: str) -> str:
    """The name of a conversation's relight session: its id where that can be one, else one made from it."""
    if _can_be_a_name(session_id):
        return session_id
    told_apart = sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    readable = _ODD.sub("-", session_id)[:80].lstrip("._-")
    return f"{readable}.{told_apart}" if readable else told_apart


def _can_be_a_name(session_id: str) -> bool:
    try:
        return _MADE.fullmatch(check_name(session_id)) is None
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
        raise UsageError(f"an item is a dict, not {type(item).__name__}", hints=["result.to_input_list()"])
    return isolated(cast("Item", item))


def _opened(rl: object) -> Relight:
    if isinstance(rl, Relight):
        return rl
    hints = ['with relight.open() as rl: RelightSession("user-42", rl)']
    raise UsageError(f"a session stands on what relight.open() gives, not on a {type(rl).__name__}", hints=hints)
