"""A counter of side effects that outlives the process in which they happen."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path


class Effects:
    """Counts what happened, in a file: one line an effect, written with one append that a kill cannot tear apart.

    Call `add` where a side effect happens, or in its place. `crash_everywhere` clears it before each trial.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"<Effects {dict(self.counts())}>"

    def add(self, what: str) -> None:
        """It happened, once more."""
        with self.path.open("ab", buffering=0) as file:
            file.write(json.dumps(what).encode() + b"\n")

    def counts(self) -> Counter[str]:
        """How often each has happened."""
        if not self.path.exists():
            return Counter()
        return Counter(map(json.loads, self.path.read_text(encoding="utf-8").splitlines()))

    def clear(self) -> None:
        """Nothing has happened."""
        self.path.unlink(missing_ok=True)
