"""Fills the table of RELIABILITY.md from build/figures.json, which every run of the suite writes.

Only what lies between the two marks is replaced; the rest of the page is written by hand. A run may have been of a few
tests only: the figures of the others stay as they are, as long as their test exists. A guarantee that no test ever
reported is left out, since a promise without a figure is a wish; one that was not kept says so.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "RELIABILITY.md"
FIGURES = ROOT / "build" / "figures.json"
_BROKEN = "**not kept**: "
_NEXT = "<br>"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"

GUARANTEES = {
    "G1": "An acknowledged step is never lost.",
    "G2": "A checkpoint is whole or absent.",
    "G3": "An error is never acknowledged.",
    "G4": "An unknown outcome is resolved, not guessed.",
    "G5": "Corruption is detected, named and survived.",
    "G6": "A torn native transcript keeps its valid prefix.",
    "G7": "A resumed history is one the provider accepts.",
    "G8": "A session has one live owner.",
    "G9": "Clock jumps and retention lose nothing.",
    "G10": "A tool declared `once` is never silently run twice.",
    "G11": "Finished steps are not run or paid again.",
    "G12": "Nothing is stranded.",
    "G13": "Changed code, tools or configuration is noticed.",
    "G14": "An ambiguous or unknown reference is refused, with candidates.",
    "G15": "Restore never leaves the workspace.",
    "G16": "Restore destroys nothing that no snapshot holds.",
    "G17": "A snapshot is faithful, or says what it left out.",
    "G18": "Sweeping is safe, and deletion is complete.",
    "G19": "No code runs from stored bytes.",
    "G20": "No code runs from looking at a workspace.",
    "G21": "Ids are data, never paths or queries.",
    "G22": "A web page cannot drive the local server.",
    "G23": "Transcripts are inert, in the page and in the terminal.",
    "G24": "Callbacks reach only outside.",
    "G25": "A prompt is never typed into a shell.",
    "G26": "Secrets do not rest in clear: not in what is recorded about a program, not in a coding agent's"
    " conversation, and not in a program's own data where it asks for that.",
    "G27": "Resources are bounded.",
    "G28": "The journal cannot be rewritten unnoticed.",
}


def main() -> int:
    """Write the table; the exit status is 1 where there are no figures yet."""
    if not FIGURES.exists():
        print(f"{FIGURES.relative_to(ROOT)} is not there\nhint: make test", file=sys.stderr)
        return 1
    told = sorted(FIGURES.parent.glob("figures*.json"))  # real agents, browsers and frameworks are runs of their own
    rows = [row for path in told for row in json.loads(path.read_text(encoding="utf-8"))]
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")
    return 0


def filled(page: str, rows: list[dict[str, Any]]) -> str:
    """The page with the table of these figures, and of those it had from tests that did not run now."""
    before, _, rest = page.partition(BEGIN)
    former, _, after = rest.partition(END)
    ran = {_test(row["test"]) for row in rows}
    kept = [row for row in read(former) if row["test"] not in ran and _exists(row["test"])]
    return f"{before}{BEGIN}\n{table([*rows, *kept])}{END}{after}"


def read(former: str) -> list[dict[str, Any]]:
    """The figures of a table as it stands in the page."""
    cells = [line.strip("| ").split(" | ") for line in former.splitlines() if line.startswith("| G")]
    return [
        {
            "guarantee": guarantee,
            "figure": figure.removeprefix(_BROKEN).replace("\\|", "|"),
            "test": test.strip("`"),
            "kept": not figure.startswith(_BROKEN),
        }
        for guarantee, _, figures, test in cells
        for figure in figures.split(_NEXT)
    ]


def _exists(test: str) -> bool:
    path, _, name = test.partition("::")
    file = ROOT / path
    return file.exists() and f"def {name.rpartition('::')[2]}(" in file.read_text(encoding="utf-8")


def table(rows: list[dict[str, Any]]) -> str:
    """One line a test with all its figures, in the order of the guarantees; the sentence stands at the first."""
    figures: dict[tuple[str, str], dict[str, None]] = {}  # one test on several stores may say the same of each
    for row in sorted(rows, key=lambda row: (int(row["guarantee"][1:]), row["test"], row["figure"])):
        told = row["figure"] if row["kept"] else f"{_BROKEN}{row['figure']}"
        figures.setdefault((row["guarantee"], _test(row["test"])), {})[told.replace("|", "\\|")] = None
    lines = ["| | guarantee | last figures | test |", "|---|---|---|---|"]
    seen: set[str] = set()
    for (name, test), told_of_it in figures.items():
        sentence = "" if name in seen else GUARANTEES[name]
        lines.append(f"| {name} | {sentence} | {_NEXT.join(told_of_it)} | `{test}` |")
        seen.add(name)
    return "\n".join(lines) + "\n"


def _test(nodeid: str) -> str:
    """The test without the parameters it was run with."""
    return nodeid.partition("[")[0]


if __name__ == "__main__":
    sys.exit(main())
