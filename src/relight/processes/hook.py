"""No verb: a hook without its supervisor. What the agent tells is written under the lease it was started with.

The supervisor may have been killed while its agent lives on. Its lease still names it, so a write under its owner and
epoch is refused exactly where somebody else has claimed the session since; then the agent is not ours any more, and is
not recorded.
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
from relight.system.machine import redactor
from relight.wiring import open_context


def main() -> int:
    """From stdin to stdout, as the client does it through the supervisor."""
    try:
        return _recorded()
    except Exception as error:  # whatever it is goes into a log of ours, where no secret may stand
        print(redactor().text(f"{type(error).__name__}: {error}"), file=sys.stderr)
        return 1


def _recorded() -> int:
    told = json.load(sys.stdin)
    if not isinstance(told, dict):
        return 0
    with open_context() as context:
        answer: Mapping[str, Any] | None = record_hook(
            context,
            told,
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
