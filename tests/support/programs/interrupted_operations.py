"""An operation of the library that a signal handler interrupts anywhere, and that is repeated at once.

    python -m tests.support.programs.interrupted_operations DIRECTORY OPERATION TIMES

Prints one line of JSON: how often it was interrupted, and every repetition that failed or had another result.
"""

from __future__ import annotations

import faulthandler
import json
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import relight
from relight.testing.workspace_kit import Picture, picture

HUNG_SECONDS = 60.0
ARMED = [False]


class Bang(Exception):
    """From the handler, once for each time it is armed."""


def bang(*_: Any) -> None:
    if ARMED[0]:
        ARMED[0] = False
        raise Bang


class Scene:
    """A session with files and three checkpoints, and what the directory holds at the first and at the last."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "tree"
        self.root.mkdir()
        self.rl = relight.open(directory / "relight.db")
        self.number = 0
        with self.rl.session("files", workspace=self.root) as s:
            seqs = []
            for number in range(3):
                (self.root / "same").write_text(f"content {number}\n" * 50)
                (self.root / f"only{number}").write_text("x")
                seqs.append(s.append({"role": "user", "content": f"{number}"}).seq)
            s.complete("done")
        self.seqs = (seqs[0], seqs[-1])
        self.pictures: dict[int, Picture] = {}
        for seq in self.seqs:
            self.restore(seq)
            self.pictures[seq] = picture(self.root)

    def restore(self, seq: int) -> None:
        self.rl.files.restore(f"files@{seq}", choice="force")

    def rewind(self, seq: int) -> None:
        self.rl.history.rewind(f"files@{seq}", files=True, choice="force")

    def open(self, _: int) -> None:
        self.number += 1
        with self.rl.session("talk") as s:
            s.append({"role": "user", "content": f"{self.number}"})

    def fork(self, seq: int) -> None:
        self.rl.history.fork(f"files@{seq}")

    def label(self, seq: int) -> None:
        self.number += 1
        self.rl.history.label(f"files@{seq}", f"label-{self.number}")

    def problem(self, operation: str, seq: int) -> str | None:
        """What is wrong after the repetition."""
        if operation in ("restore", "rewind") and picture(self.root) != self.pictures[seq]:
            return "other files than at the checkpoint"
        if operation == "open":
            said = [message["content"] for message in self.rl.history.load("talk").messages]
            if said[-1] != f"{self.number}":
                return f"the last message is {said[-1]}"
        return None


def interrupted(operation: Callable[[int], None], seq: int, seconds: float) -> bool:
    """Whether the signal came before it ended."""
    try:
        ARMED[0] = True
        signal.setitimer(signal.ITIMER_REAL, seconds)
        operation(seq)
        ARMED[0] = False
    except Bang:
        return True
    finally:
        ARMED[0] = False
        signal.setitimer(signal.ITIMER_REAL, 0)
    return False


def main() -> None:
    directory, name, times = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    chance, signals, wrong = random.Random(1), 0, []
    signal.signal(signal.SIGALRM, bang)
    scene = Scene(directory)
    operation: Callable[[int], None] = getattr(scene, name)
    operation(scene.seqs[0])  # the first time imports what the others find loaded
    begun = time.perf_counter()
    operation(scene.seqs[1])
    longest = time.perf_counter() - begun
    for number in range(times):
        faulthandler.dump_traceback_later(HUNG_SECONDS, exit=True)
        seq = scene.seqs[number % 2]
        try:
            signals += interrupted(operation, seq, chance.uniform(1e-6, longest))
            operation(seq)
            problem = scene.problem(name, seq)
        except relight.RelightError as error:
            problem = f"{type(error).__name__}: {error}"
        if problem is not None:
            wrong.append(f"{number}: {problem}")
    print(json.dumps({"signals": signals, "wrong": wrong, "ok": scene.rl.history.verify().ok}))
    scene.rl.close()


if __name__ == "__main__":
    main()
