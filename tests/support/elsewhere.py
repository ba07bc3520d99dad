"""What is left out on a machine without Linux's special calls: tests/elsewhere.toml, as the runner reads it."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

LIST = Path(__file__).resolve().parent.parent / "elsewhere.toml"


@cache
def left_out() -> tuple[dict[str, str], dict[str, str]]:
    """Directories and single tests (`path::function`), each with the reason."""
    found = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return found["suites"], found["linux_calls"]
