"""Modules that are imported when something of them is first used.

So a command that only lists, or completes a name, does not wait for the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyModule:
    """Stands for the module of this dotted name; the first access to an attribute imports it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)
