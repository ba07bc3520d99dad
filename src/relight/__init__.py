"""relight: crash-proof AI agents. Every step is a checkpoint; whatever kills an agent, it goes on where it stopped.

The names are bound on first use, so that importing relight costs a program next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relight import aio, errors
    from relight.engine.given import Reply
    from relight.engine.library import Loaded, Relight
    from relight.engine.loop import loop
    from relight.engine.session import Session
    from relight.engine.tools import tool
    from relight.errors import RelightError, Waiting
    from relight.model.call import Call
    from relight.model.checkpoint import Checkpoint
    from relight.model.info import ResumePlan, SessionInfo
    from relight.model.policy import LoopGuard, Retention, Retry
    from relight.model.usage import Usage
    from relight.wiring import open

__version__ = "0.1.0"
__all__ = [
    "Call",
    "Checkpoint",
    "Loaded",
    "LoopGuard",
    "Relight",
    "RelightError",
    "Reply",
    "ResumePlan",
    "Retention",
    "Retry",
    "Session",
    "SessionInfo",
    "Usage",
    "Waiting",
    "aio",
    "errors",
    "loop",
    "open",
    "tool",
]

_HOMES = {
    "Call": "relight.model.call",
    "Checkpoint": "relight.model.checkpoint",
    "Loaded": "relight.engine.library",
    "LoopGuard": "relight.model.policy",
    "Relight": "relight.engine.library",
    "RelightError": "relight.errors",
    "Reply": "relight.engine.given",
    "ResumePlan": "relight.model.info",
    "Retention": "relight.model.policy",
    "Retry": "relight.model.policy",
    "Session": "relight.engine.session",
    "SessionInfo": "relight.model.info",
    "Usage": "relight.model.usage",
    "Waiting": "relight.errors",
    "loop": "relight.engine.loop",
    "open": "relight.wiring",
    "tool": "relight.engine.tools",
}


def __getattr__(name: str) -> Any:
    if name in ("aio", "errors"):
        return import_module(f"relight.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'relight' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
