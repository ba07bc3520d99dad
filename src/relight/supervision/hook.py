"""Records one hook event from a process that is not the supervisor. Approvals are required here too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relight.history.loading import resolve
from relight.ports.agent import Surroundings
from relight.sessions.context import Context
from relight.sessions.opening import recorder_for
from relight.supervision.approvals import WAITS, decision_of
from relight.supervision.observe import Observer
from relight.supervision.subagents import SubAgentSessions


def record_hook(
    context: Context,
    payload: Mapping[str, Any],
    *,
    session: str,
    agent: str,
    owner: str,
    epoch: int,
    directory: str,
) -> Mapping[str, Any] | None:
    """Record a hook event under this owner and epoch; the reply. LeaseLost if another owner has claimed the session.

    Files are not captured: the next supervisor does that.
    """
    adapter = context.agents.named(agent)
    heard = adapter.hears(payload, Surroundings(directory=directory, environment=context.environment))
    if heard is None:
        return None
    recorder = recorder_for(context, resolve(context.store, session))
    recorder.owner, recorder.epoch = owner, epoch
    observer = Observer(recorder, adapter, None, context.price)
    observer.subagents = SubAgentSessions(context, recorder, adapter)
    able = adapter.capabilities
    decision = decision_of(recorder, heard, now_us=context.clock.now_us(), nests=able.nests)
    if decision is None or decision[0] == "allow":
        observer.record_hook(heard)
    if decision is None:
        return None
    said, why = decision
    # Nobody ends an agent that cannot defer the call: it is denied, and asked about when it is made again.
    return adapter.decides(heard, said, WAITS if said == "wait" and not able.defers else why)
