"""What a wheel holds beyond the repository: the third-party files of the pages, and the compiled scanner on Linux."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs for every wheel, an editable one too. What is missing is reported, and the wheel is built without it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before files are chosen."""
        for trouble in self._tool("assets").provide():
            print(f"pages: {trouble}", file=sys.stderr)
        scanner = self._tool("build_scan")
        reason = scanner.build()
        if reason:
            print(f"no compiled scanner, directories are scanned in Python: {reason}", file=sys.stderr)
        elif version != "editable":
            build_data["pure_python"], build_data["tag"] = False, scanner.TAG

    def _tool(self, name: str) -> ModuleType:
        """A module beside this one: a build environment has no `tools` package to import from."""
        spec = spec_from_file_location(f"relight_{name}", Path(self.root) / "tools" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
