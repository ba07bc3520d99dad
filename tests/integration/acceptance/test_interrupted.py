"""A signal handler that raises in the middle of an append or of another operation leaves nothing locked, loses nothing
and doubles nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from relight.stores.sqlite.group_commit import Waiter, WriterQueue
from relight.system.permits import Permits
from tests.integration.acceptance.conftest import Addresses

BOUND_SECONDS = 90.0


def test_a_permit_that_nobody_has_any_more_is_free_again() -> None:
    permits = Permits(2)
    kept, lost = permits.take(), permits.take()
    assert permits.take_within(0) is None
    del lost  # as an interruption leaves it: taken, and never given back
    again = permits.take_within(BOUND_SECONDS)
    assert again is not None
    kept.release()
    kept.release()
    assert permits.take_within(0) is not None
    assert permits.take_within(0) is not None, "what was given back twice counts once"


def test_a_turn_that_nobody_has_any_more_goes_to_who_waits() -> None:
    queue = WriterQueue()
    lost, served = Waiter(), []
    assert queue.enter(lost)

    def wait() -> None:
        mine = Waiter()
        served.append(queue.enter(mine))
        queue.leave(mine)

    threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    del lost
    for thread in threads:
        thread.join(BOUND_SECONDS)
    assert served == [True] * 3
    stale = Waiter()
    assert queue.enter(stale)
    assert queue.enter(Waiter()), "a thread waits for itself"


@pytest.mark.parametrize(
    ("kind", "again"), [("memory", 0.0), ("sqlite", 0.0), ("sqlite", 0.0002), ("postgres", 0.0), ("redis", 0.0)]
)
def test_an_exception_from_a_signal_handler_leaves_nothing_locked(
    kind: str, again: float, address_of: Addresses, tmp_path: Path, sample: Callable[..., int]
) -> None:
    seconds = sample(1, proof=60)
    command = [
        sys.executable,
        "-m",
        "tests.support.programs.interrupted",
        address_of(kind, tmp_path),
        str(seconds),
        str(again),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_SECONDS + seconds, check=False)
    assert ended.returncode == 0, ended.stderr
    reported = json.loads(ended.stdout)
    assert reported["bangs"] > 0, "it was never interrupted"
    assert (reported["lost"], reported["doubled"], reported["unseen"]) == (0, 0, 0), reported
    assert (reported["foreign"], reported["ok"]) == ([], True), reported
    assert reported["imported"] == [], "an interrupted import leaves its lock to nobody: none after the opening"


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])
def test_an_event_loop_whose_appends_are_interrupted_goes_on_with_the_next(
    kind: str, address_of: Addresses, tmp_path: Path, sample: Callable[..., int]
) -> None:
    seconds = sample(2, proof=60)
    command = [
        sys.executable,
        "-m",
        "tests.support.programs.interrupted_tasks",
        address_of(kind, tmp_path),
        str(seconds),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_SECONDS + seconds, check=False)
    assert ended.returncode == 0, ended.stderr
    reported = json.loads(ended.stdout)
    assert reported["bangs"] > 0, "it was never interrupted"
    assert (reported["lost"], reported["doubled"], reported["ok"]) == (0, 0, True), reported


@pytest.mark.parametrize("operation", ["open", "restore", "rewind", "fork", "label"])
def test_an_operation_that_a_signal_interrupts_anywhere_can_be_repeated_at_once(
    operation: str, tmp_path: Path, sample: Callable[..., int]
) -> None:
    words = [str(tmp_path), operation, str(sample(40, proof=2000, teeth=100))]
    command = [sys.executable, "-m", "tests.support.programs.interrupted_operations", *words]
    bound = BOUND_SECONDS + sample(0, proof=600)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=bound, check=False)
    assert ended.returncode == 0, ended.stderr
    reported = json.loads(ended.stdout)
    assert reported["signals"] > 0, "it was never interrupted"
    assert (reported["wrong"], reported["ok"]) == ([], True), reported
