"""A parent and eight children, and random deaths of any of them: outcomes are told truly, no effect happens twice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest

import relight
from tests.guarantees.conftest import memory_path
from tests.support.child_processes import ROOT
from tests.support.programs.parent_of_eight import NAMES, lines

__all__ = ["memory_path"]

SEED = 66
MAX_SECONDS = 120.0
KILLS_A_FAMILY = 20


def start(store: str, effects: str, *, is_worker: bool = False) -> subprocess.Popen[bytes]:
    """The parent, or a worker for the children that it puts into a queue."""
    parent = ["-m", "tests.support.programs.parent_of_eight", store, effects]
    words = ["-m", "relight.cli", "--store", store, "worker", "--no-retention"] if is_worker else parent
    with open(f"{effects}.log", "ab") as said:
        return subprocess.Popen([sys.executable, *words], cwd=ROOT, stdout=said, stderr=said)


def kill_one(running: list[subprocess.Popen[bytes]], chance: random.Random, left: set[psutil.Process]) -> None:
    """SIGKILL for the parent or the worker, or for what they, or those before them, started."""
    for one in running:
        with suppress(psutil.Error):
            left |= set(psutil.Process(one.pid).children(recursive=True))
    victims = [*(one.pid for one in running), *(one.pid for one in left if one.is_running())]
    with suppress(psutil.Error):
        psutil.Process(chance.choice(victims)).send_signal(signal.SIGKILL)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_child_has_its_own_outcome_and_no_effect_happens_twice(
    memory_path: Path, sample: Callable[..., int]
) -> None:
    kills, chance = sample(3, proof=200, teeth=2), random.Random(SEED)
    left: set[psutil.Process] = set()
    done = number = 0
    while done < kills:  # a family that ends before it is hit often enough is checked, and another one begun
        number += 1
        store, effects = (str(memory_path / f"{number}.{what}") for what in ("db", "effects"))
        done += until_the_end(store, effects, kills - done, chance, left)
        check(store, effects)


def until_the_end(store: str, effects: str, kills: int, chance: random.Random, left: set[psutil.Process]) -> int:
    """Start the parent again after each of its deaths, until it has ended by itself; how many were killed."""
    done, worker = 0, start(store, effects, is_worker=True)
    try:
        for _ in range(kills + 10):
            parent = start(store, effects)
            while parent.poll() is None:
                time.sleep(chance.uniform(0.05, 0.6))
                if done < min(kills, KILLS_A_FAMILY) and parent.poll() is None:
                    kill_one([parent, worker], chance, left)
                    done += 1
                if worker.poll() is not None:
                    worker = start(store, effects, is_worker=True)
            if parent.returncode == 0:
                return done
    finally:
        worker.terminate()
        worker.wait(MAX_SECONDS)
    pytest.fail(f"never ended: {Path(f'{effects}.log').read_text(encoding='utf-8')[-2000:]}")


def check(store: str, effects: str) -> None:
    assert sorted(lines(effects)) == sorted(NAMES), "each effect once"
    with relight.open(store) as rl:
        info = rl.sessions.get("parent")
        children = {one.name: (one.status, one.attempt) for one in rl.sessions.list(spawned_by="parent")}
        assert (info.status, rl.history.load("parent").result) == ("completed", list(NAMES))
        assert set(children) == {f"parent.{name}" for name in NAMES}
        assert {status for status, _ in children.values()} == {"completed"}
    assert start(store, effects).wait(MAX_SECONDS) == 0
    with relight.open(store) as rl:
        after = {one.name: (one.status, one.attempt) for one in rl.sessions.list(spawned_by="parent")}
    assert (after, len(lines(effects))) == (children, len(NAMES)), "what is finished does not run again"
