"""A wheel holds the third-party files of the pages too: brought before it is built, checked by tools/assets.py."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class AssetsHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs for every wheel, an editable one too; what cannot be had is said, and the wheel is built without it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before files are chosen."""
        spec = spec_from_file_location("relight_assets", Path(self.root) / "tools" / "assets.py")
        assert spec is not None and spec.loader is not None
        assets = module_from_spec(spec)
        spec.loader.exec_module(assets)
        for trouble in assets.provide():
            print(f"pages: {trouble}", file=sys.stderr)
