"""Modules that are imported on first use: a command that only lists does not wait for the others, and a program that
appends not for what runs tools and turns."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyModule:
    """A placeholder for the module of this dotted name; the first access to an attribute imports it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)
