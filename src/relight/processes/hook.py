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

from relight.ports.hooks import EPOCH_VARIABLE
from relight.ports.runtime import AGENT_VARIABLE, OWNER_VARIABLE, SESSION_VARIABLE
from relight.supervision.hook import record_hook
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
        answer: Mapping[str, Any] | None = record_hook(
            context,
            event,
            session=os.environ[SESSION_VARIABLE],
            agent=os.environ[AGENT_VARIABLE],
            owner=os.environ[OWNER_VARIABLE],
            epoch=int(os.environ[EPOCH_VARIABLE]),
            directory=os.getcwd(),
        )
    if answer is not None:
        json.dump(dict(answer), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
