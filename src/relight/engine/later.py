"""Modules of this room, imported when something of them is first used.

So a command that only lists, or completes a name, does not wait for the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Later:
    """Stands for `relight.engine.NAME` until it is asked for something."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(f"relight.engine.{self._name}"), attribute)
