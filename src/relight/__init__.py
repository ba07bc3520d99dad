"""relight: crash-proof AI agents. Every step is a checkpoint; whatever kills an agent, it goes on where it stopped."""

from importlib import import_module
from typing import Any

from relight import errors
from relight.engine.library import Loaded, Relight
from relight.engine.loop import loop
from relight.engine.session import Reply, Session
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
    "errors",
    "loop",
    "open",
    "tool",
]


def __getattr__(name: str) -> Any:
    """`relight.aio` on first use: programs without an event loop do not pay for one."""
    if name == "aio":
        return import_module("relight.aio")
    raise AttributeError(f"module 'relight' has no attribute {name!r}")
