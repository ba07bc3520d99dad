"""relight: crash-proof AI agents. Every step is a checkpoint; whatever kills an agent, it resumes where it stopped.

The public names are imported on first use, and nothing else here, so that `import relight` is fast.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know the name; `typing` takes longer to import than all else here
if TYPE_CHECKING:
    from typing import Any

    from relight import aio, errors, types
    from relight.errors import RelightError, Waiting
    from relight.library.facade import Relight
    from relight.library.loaded import Loaded
    from relight.sessions.calls.tools import tool
    from relight.sessions.inputs import Reply
    from relight.sessions.session import Session
    from relight.shared_handles import session
    from relight.values.call import Call
    from relight.values.checkpoint import Checkpoint
    from relight.values.info import ResumePlan, SessionInfo
    from relight.values.policy import LoopGuard, Retention, Retry
    from relight.values.usage import Usage
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
    "open",
    "session",
    "tool",
    "types",
]

_MODULES = {
    "Call": "relight.values.call",
    "Checkpoint": "relight.values.checkpoint",
    "Loaded": "relight.library.loaded",
    "LoopGuard": "relight.values.policy",
    "Relight": "relight.library.facade",
    "RelightError": "relight.errors",
    "Reply": "relight.sessions.inputs",
    "ResumePlan": "relight.values.info",
    "Retention": "relight.values.policy",
    "Retry": "relight.values.policy",
    "Session": "relight.sessions.session",
    "SessionInfo": "relight.values.info",
    "Usage": "relight.values.usage",
    "Waiting": "relight.errors",
    "open": "relight.wiring",
    "session": "relight.shared_handles",
    "tool": "relight.sessions.calls.tools",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    module = f"relight.{name}" if name in ("aio", "errors", "types") else _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'relight' has no attribute {name!r}")
    if not module.startswith(("relight.values.", "relight.errors")):
        from relight.system.platform import check_supported, this_platform

        check_supported(this_platform())  # before an import fails for want of something that only POSIX has
    found = import_module(module)
    value = globals()[name] = getattr(found, name) if name in _MODULES else found
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
