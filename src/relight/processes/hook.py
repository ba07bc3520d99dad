"""Fallback of the hook client: records a hook event directly in the store when no supervisor answers.

The supervisor may have been killed while its agent still runs. The event is written under the owner and epoch of the
supervisor's lease, so the write is refused exactly if another owner has claimed the session since: events of an agent
that was replaced are not recorded.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from relight.history.loading import resolve
from relight.ports.agent import Surroundings
from relight.ports.hooks import EPOCH_VARIABLE
from relight.ports.runtime import AGENT_VARIABLE, OWNER_VARIABLE, SESSION_VARIABLE
from relight.sessions.context import Context
from relight.sessions.opening import recorder_for
from relight.supervision.approvals import WAITS, decision_of
from relight.supervision.observe import Observer
from relight.supervision.subagents import SubAgentSessions
from relight.system.environment_secrets import redactor
from relight.telemetry.notices import print_notices
from relight.wiring import open_context


def main() -> int:
    """Read one hook event as JSON from stdin, record it, write the reply to stdout."""
    print_notices()
    try:
        return _record()
    except Exception as error:  # stderr is the hook log: whatever failed, no secret may get into it
        print(redactor().text(f"{type(error).__name__}: {error}"), file=sys.stderr)
        return 1


def _record() -> int:
    event = json.load(sys.stdin)
    if not isinstance(event, dict):
        return 0
    with open_context() as context:
        answer = _record_event(context, event)
    if answer is not None:
        json.dump(dict(answer), sys.stdout)
    return 0


def _record_event(context: Context, payload: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Record a hook event under the supervisor's owner and epoch; the reply. LeaseLost if another owner has claimed the
    session. Approvals are required here too. Files are not captured: the next supervisor does that.
    """
    adapter = context.agents.named(os.environ[AGENT_VARIABLE])
    heard = adapter.hears(payload, Surroundings(directory=os.getcwd(), environment=context.environment))
    if heard is None:
        return None
    recorder = recorder_for(context, resolve(context.store, os.environ[SESSION_VARIABLE]))
    recorder.owner, recorder.epoch = os.environ[OWNER_VARIABLE], int(os.environ[EPOCH_VARIABLE])
    observer = Observer(recorder, adapter, None, context.price)
    observer.subagents = SubAgentSessions(context, recorder, adapter)
    able = adapter.capabilities
    decision = decision_of(recorder, heard, now_us=context.clock.now_us(), nests=able.nests)
    if decision is None or decision[0] == "allow":
        observer.record_hook(heard)
    if decision is None:
        return None
    said, why = decision
    # An agent that cannot defer the call is not ended: the call is denied, and a person is asked when it is made again.
    return adapter.decides(heard, said, WAITS if said == "wait" and not able.defers else why)


if __name__ == "__main__":
    sys.exit(main())
