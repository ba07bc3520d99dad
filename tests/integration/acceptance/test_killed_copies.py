"""A backup or a copy that is killed at any moment leaves nothing half: sessions are there whole or not at all."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import relight
from tests.integration.acceptance.test_copy import fill, heads, user

SEED = 15
SESSIONS = 40


def run_and_kill(words: list[str], seconds: float | None) -> int:
    """Run a command; SIGKILL after so many seconds. Its exit code, negative if it was killed in time."""
    process = subprocess.Popen([sys.executable, "-m", "relight.cli", *words], stdout=-3, stderr=-3)
    if seconds is not None:
        time.sleep(seconds)
        process.kill()
    return process.wait(60)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("source")
    with relight.open(place / "r.db") as rl:
        fill(rl, place / "shop")
        for number in range(SESSIONS):
            with rl.session(f"more{number}") as s:
                s.append(user("x" * 20_000))
    return str(place / "r.db")


def test_a_killed_backup_leaves_no_file_or_a_whole_one(source: str, tmp_path: Path, sample: Callable[..., int]) -> None:
    chance = random.Random(SEED)
    with relight.open(source) as rl:
        expected = heads(rl)
    for number in range(sample(2, proof=100)):
        kept = tmp_path / f"{number}.db"
        killed = run_and_kill(["--store", source, "backup", str(kept)], chance.uniform(0.1, 0.7)) != 0
        assert kept.exists() or killed
        if kept.exists():
            with relight.open(kept) as there:
                assert heads(there) == expected and there.history.verify().problems == []
    assert run_and_kill(["--store", source, "backup", str(tmp_path / "again.db")], None) == 0, "the next one is made"


def test_a_killed_copy_has_each_session_whole_or_not_and_the_next_one_completes_it(
    source: str, tmp_path: Path, sample: Callable[..., int]
) -> None:
    chance, other = random.Random(SEED), str(tmp_path / "other.db")
    with relight.open(source) as rl:
        expected = heads(rl)
    for _ in range(sample(2, proof=100)):
        run_and_kill(["copy", source, other], chance.uniform(0.1, 0.5))
        if Path(other).exists():
            with relight.open(other) as there:
                assert heads(there).items() <= expected.items() and there.history.verify().problems == []
    assert run_and_kill(["copy", source, other], None) == 0
    with relight.open(other) as there:
        assert heads(there) == expected and there.files.read("root@green", "a.txt") == b"first"
