"""LangGraph adapter: `RelightSaver(rl)` is a checkpointer whose threads are relight sessions."""

from relight.errors import MissingExtra

try:
    import langgraph.checkpoint.base  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtra("langgraph", needed_for="a checkpointer for LangGraph") from error

from relight.errors import ThreadBusy, ThreadGone, UnknownType
from relight.frameworks.langgraph.saver import RelightSaver

__all__ = ["RelightSaver", "ThreadBusy", "ThreadGone", "UnknownType"]
