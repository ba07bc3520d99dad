"""The pages of the project and their code blocks, and how a page is run.

What a fence says is what happens, so that nothing is skipped without a reader seeing it:
    python     runs, after the blocks before it and in their namespace; a text block right under it is its output.
               One that begins with a comment such as `# agent.py` is saved under that name, and a console block has
               to run it
    console    each line behind `$ ` runs in a shell and must exit with 0, or with N where the line ends in `# exit N`;
               the lines under it must be in its output
    text       is not run: output, diagrams, and what would change the reader's machine
In output `…` stands for anything, and spaces for any number of them: a column moves with the width of a number.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "RELIABILITY.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "frameworks").glob("*.md")),
    *sorted((ROOT / "docs" / "sdks").glob("*.md")),
]
LANGUAGES = {"python", "console", "text"}

_FENCE = re.compile(r"^( *)```(.*)$")
_FILE = re.compile(r"# ([\w.-]+\.py)\n")
_EXIT = re.compile(r"\s+# exit (\d+)$")


class Block(NamedTuple):
    """One fenced block."""

    language: str
    line: int
    """of its first line of content"""
    text: str
    touches_former: bool
    """only blank lines lie between it and the block before it"""

    @property
    def saved_as(self) -> str | None:
        """The name of the file that a python block is, where it is one."""
        named = _FILE.match(self.text) if self.language == "python" else None
        return named[1] if named else None


class Command(NamedTuple):
    """One line behind `$ ` and what is shown under it."""

    line: int
    shell: str
    exit_code: int
    shown: list[str]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    language: str | None = None
    inside: list[str] = []
    start, prose = 0, True
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if language is None and fence:
            language, inside, start = fence[2].strip(), [], number + 1
        elif language is not None and fence and not fence[2]:
            found.append(Block(language, start, "\n".join(inside) + "\n", not prose))
            language, prose = None, False
        elif language is not None:
            inside.append(line)
        elif line.strip():
            prose = True
    assert language is None, f"{page.name}:{start}: a block that is never closed"
    return found


def commands(block: Block) -> list[Command]:
    """The commands of a console block."""
    found: list[Command] = []
    for number, line in enumerate(block.text.splitlines(), block.line):
        if line.startswith("$ "):
            asked = _EXIT.search(line)
            shell = line[2:] if asked is None else line[2 : asked.start()]
            found.append(Command(number, shell, int(asked[1]) if asked else 0, []))
        elif found and line.strip():
            found[-1].shown.append(line.strip())
    return found


def missing(shown: list[str], output: str) -> list[str]:
    """The shown lines that the output does not have."""
    lines = [line.strip() for line in output.splitlines()]
    return [one for one in shown if not any(_pattern(one).fullmatch(line) for line in lines)]


def _pattern(shown: str) -> re.Pattern[str]:
    parts = [re.sub(r"(\\ )+", r"\\s+", re.escape(part)) for part in shown.split("…")]
    return re.compile(".*".join(parts))
