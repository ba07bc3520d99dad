"""LangGraph adapter: `RelightSaver(rl)` is a checkpointer whose threads are relight sessions.

What needs LangGraph is imported on first use: `conversation` reads its sessions where it is not installed.
"""

from typing import TYPE_CHECKING, Any

from relight.errors import MissingExtra, ThreadBusy, ThreadGone, UnknownType

if TYPE_CHECKING:
    from relight.frameworks.langgraph.saver import RelightSaver

__all__ = ["RelightSaver", "ThreadBusy", "ThreadGone", "UnknownType"]


def __getattr__(name: str) -> Any:
    if name != "RelightSaver":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    need_langgraph("a checkpointer for LangGraph")
    from relight.frameworks.langgraph.saver import RelightSaver

    return RelightSaver


def need_langgraph(needed_for: str) -> None:
    """MissingExtra where LangGraph's packages are not installed."""
    try:
        import langgraph.checkpoint.base  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtra("langgraph", needed_for=needed_for) from error
