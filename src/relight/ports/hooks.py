"""Hook channel: how a running agent reports to its supervisor. Guarantees of every implementation:

1. A hook is answered after its event is durable. The agent waits for the answer, so it must be quick.
2. A hook never breaks the agent: failures on our side are logged and the agent continues. The exception: if calls need
   approval, a call that cannot be recorded is denied, because no person could be asked about it.
3. Only processes of the same user can reach the channel.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

SOCKET_VARIABLE: Final = "RELIGHT_HOOK_SOCKET"
LOG_VARIABLE: Final = "RELIGHT_HOOK_LOG"
EPOCH_VARIABLE: Final = "RELIGHT_EPOCH"
"""the epoch of the supervisor's lease: a direct write uses it, and is refused once another owner has claimed"""


class Held(NamedTuple):
    """A reply that is given only when its agent has ended: until then the hook waits, and its tool call with it."""

    until: threading.Event
    reply: Mapping[str, Any] | None


Answer = Callable[[Mapping[str, Any]], Mapping[str, Any] | Held | None]
"""maps a hook event to the reply for the agent; None: no reply, it continues"""


class HookListener(Protocol):
    """An open channel, for one attempt of one agent."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables that the agent's process needs to reach the channel."""
        ...

    def close(self) -> None:
        """Stop answering. Hooks that come later are recorded directly in the store (`relight.processes.hook`)."""
        ...


class HookChannel(Protocol):
    """Opens hook channels, one per attempt."""

    @property
    def command(self) -> tuple[str, ...]:
        """The command an agent runs as its hook: event as JSON on stdin, reply on stdout. An appended argument is the
        reply to give if the event cannot be recorded, which then needs no environment variable."""
        ...

    def listen(self, directory: Path, answer: Answer) -> HookListener:
        """Answer hooks from here on, each on its own thread. `directory` must be private to this user."""
        ...
