"""Counts of a run, read from the world's files and the shop, never from the agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from relight.demo import shop
from relight.demo.stage import Stage


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in one run."""

    model_calls: int
    """requests that reached the model"""
    model_calls_repeated: int
    """requests for a turn that was requested before"""
    mails: int
    """lines in the outbox"""
    edits: int
    """how often cart.py contains the fix"""
    tests_passed: int
    tests: int


def count(stage: Stage, run: str) -> Count:
    turns = [asked["turn"] for asked in lines(stage.world / "requests.jsonl") if asked["run"] == run]
    passed, tests = shop.run_tests(stage.shop(run))
    return Count(
        model_calls=len(turns),
        model_calls_repeated=len(turns) - len(set(turns)),
        mails=mails(stage, run),
        edits=shop.times_fixed(stage.shop(run)),
        tests_passed=passed,
        tests=tests,
    )


def mails(stage: Stage, run: str) -> int:
    """Mails in the outbox of a run."""
    return len(lines(stage.world / f"{run}.outbox"))


def saves_us(stage: Stage, run: str) -> list[int]:
    """How long each save of a run took, in microseconds."""
    return [int(line) for line in lines(stage.world / f"{run}.saves")]


def lines(path: Path) -> list[Any]:
    """The complete JSON lines of a file; empty if it does not exist."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
