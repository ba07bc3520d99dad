"""For tests of one's own agents: a store for each test, a scripted model, and deaths at every commit.

`pytest_plugins = ["relight.testing"]` in conftest.py registers the fixtures. Beside them are the conformance kits, for
implementations of relight's own interfaces: stores, runtimes and the like. Names are imported on first use, so that the
kits need no pytest. (PYTEST_DONT_REWRITE: importing it before pytest registers it is no reason for a warning.)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relight.testing.crashes import CrashReport, crash_everywhere
    from relight.testing.effects import Effects
    from relight.testing.fixtures import relight_effects, relight_store
    from relight.testing.scripted_model import ScriptedModel

__all__ = ["CrashReport", "Effects", "ScriptedModel", "crash_everywhere", "relight_effects", "relight_store"]

_MODULES = {
    "CrashReport": "crashes",
    "Effects": "effects",
    "ScriptedModel": "scripted_model",
    "crash_everywhere": "crashes",
    "relight_effects": "fixtures",
    "relight_store": "fixtures",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'relight.testing' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"relight.testing.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
