"""A store that several processes make at the same moment: each of them can use it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.shell import environment

PROGRAM = """
import sys, time
import relight
from relight.stores.sqlite import store

for number in range(int(sys.argv[2])):
    while time.time() < float(sys.argv[3]) + number * 0.05:
        pass
    with relight.open(f"{sys.argv[1]}/{number}/r.db") as rl:
        rl.sessions.list()
"""


def test_two_that_make_a_store_at_the_same_moment_both_have_it(tmp_path: Path, sample: Callable[..., int]) -> None:
    """SQLite refuses one of them at once, however long it may wait for locks."""
    words = [sys.executable, "-P", "-c", PROGRAM, str(tmp_path), str(sample(30, proof=600)), str(time.time() + 1.5)]
    together = [
        subprocess.Popen(words, env=environment(tmp_path / "x.db"), stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [one.communicate(timeout=60)[1] for one in together] == ["", ""]
