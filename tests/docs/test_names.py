"""Every name of the library that a page mentions exists: `relight.x`, `rl.noun.verb`, `s.verb`, a logger."""

from __future__ import annotations

import importlib
import logging
import re
from typing import Any

import relight
from relight.telemetry import logs
from tests.docs.pages import ROOT

CODE = re.compile(r"`[^`\n]+`|```python.*?```", re.DOTALL)
NAMES = re.compile(r"(?<![\w./:@-])(relight|rl|s)\.([a-zA-Z_]\w*(?:\.[a-zA-Z_]\w*)*)")
ATTRIBUTES = {"relight.kind", "relight.seq", "relight.attempt"}
"""of a span"""
OTHERS = {"relight.db.blobs", "relight.steps", "relight.heads"}
"""files and tables"""


def pages() -> dict[str, str]:
    paths = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return {str(one.relative_to(ROOT)): one.read_text() for one in paths if "decisions" not in one.parts}


def exists(start: Any, name: str) -> bool:
    """Whether each part is an attribute of the one before, or a module."""
    found, parts = start, name.split(".")
    for number, part in enumerate(parts, 1):
        if not hasattr(found, part) and start is relight:
            try:
                importlib.import_module(f"relight.{'.'.join(parts[:number])}")
            except ImportError:
                return False
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def test_every_name_in_a_page_exists() -> None:
    for one in vars(logs).values():
        if isinstance(one, logs.Log):
            one.reads(logging.INFO)  # its logger is made when it is first asked
    loggers = {name for name in logging.root.manager.loggerDict if name.startswith("relight.")}
    unknown = []
    with relight.open("memory:") as rl, rl.session("a") as s:
        start = {"relight": relight, "rl": rl, "s": s}
        for page, text in pages().items():
            for code in CODE.findall(text):
                for handle, name in NAMES.findall(code):
                    whole = f"{handle}.{name}"
                    if whole in loggers | ATTRIBUTES | OTHERS or exists(start[handle], name):
                        continue
                    unknown.append(f"{page}: {whole}")
    assert unknown == []
