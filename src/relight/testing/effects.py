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

    def add(self, what: str, *, key: str | None = None) -> None:
        """It happened, once more. With a `key`, such as the idempotency key of a call: once a key."""
        with self.path.open("ab", buffering=0) as file:
            file.write(json.dumps([what, key]).encode() + b"\n")

    def counts(self) -> Counter[str]:
        """How often each has happened."""
        if not self.path.exists():
            return Counter()
        added = [tuple(json.loads(line)) for line in self.path.read_text(encoding="utf-8").splitlines()]
        keyed = {one for one in added if one[1] is not None}
        return Counter(what for what, _ in [*keyed, *(one for one in added if one[1] is None)])

    def clear(self) -> None:
        """Nothing has happened."""
        self.path.unlink(missing_ok=True)
