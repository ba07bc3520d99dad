"""Hooks: how a running agent tells its supervisor what it does. What every channel promises.

1. A hook is answered after what it tells is durable; the agent waits for that, so the answer must be quick.
2. A hook never breaks the agent: whatever fails on our side is logged, and the agent goes on. The exception: where
   calls need approval, a call that could not be recorded is denied, because nobody could be asked about it.
3. Only processes of the same user reach the channel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

SOCKET_VARIABLE: Final = "RELIGHT_HOOK_SOCKET"
LOG_VARIABLE: Final = "RELIGHT_HOOK_LOG"
EPOCH_VARIABLE: Final = "RELIGHT_EPOCH"
"""the epoch of the supervisor's lease: a direct write goes under it, and is refused where somebody else has claimed"""

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""from what a hook tells to what the agent is told; None: nothing, it goes on"""


class HookListener(Protocol):
    """An open channel."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What the agent's process needs to reach it."""
        ...

    def close(self) -> None:
        """Nobody is answered any more."""
        ...


class HookChannel(Protocol):
    """Opens channels."""

    @property
    def command(self) -> tuple[str, ...]:
        """What an agent runs as its hook: JSON on stdin, the answer on stdout. With one argument behind it, that is the
        answer where what it is told cannot be recorded, and it needs nothing of its environment to give it."""
        ...

    def listen(self, directory: Path, answer: Answer) -> HookListener:
        """Answer hooks from here on, each on a thread of its own. `directory` is ours and private."""
        ...
