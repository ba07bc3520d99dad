"""Adding an agent touches no other room: what decides anything names no agent, which brings what only it knows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "relight"
ROOMS = (
    "awaited",
    "blobs",
    "bundles",
    "demo",
    "files",
    "fleet",
    "history",
    "hooks",
    "journal/conversion",
    "journal/failures",
    "journal/queues",
    "library",
    "notifications",
    "operations",
    "ports",
    "processes",
    "runtimes",
    "stores",
    "supervision",
    "system",
    "text",
    "values",
    "workspaces",
)
AGENT = re.compile(r"\b(claude|codex|gemini|opencode)\b", re.IGNORECASE)
PROVIDERS_WORDS = {"journal/failures/texts.py"}
"""messages of a provider, which any program may print"""


def constants(path: Path) -> list[tuple[int, str]]:
    """Every text in the code of a file that is no docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in alone]
    return [(node.lineno, node.value) for node in texts if isinstance(node.value, str)]


def test_no_room_besides_the_agents_decides_by_the_name_of_one() -> None:
    files = [path for room in ROOMS for path in (SOURCE / room).rglob("*.py")]
    assert len(files) > 100, "the rooms have been renamed"
    named = [
        f"{path.relative_to(SOURCE)}:{line}: {text[:60]}"
        for path in files
        if str(path.relative_to(SOURCE)) not in PROVIDERS_WORDS
        for line, text in constants(path)
        if AGENT.search(text)
    ]
    assert named == []
