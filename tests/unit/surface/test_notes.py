"""Errors carry evidence and hints as notes: the traceback of an error that nobody caught shows them, in any form."""

from __future__ import annotations

import subprocess
import sys

import pytest

HINT = "hint: choose a store that has it"
RAISE = """
import asyncio, threading
from relight.errors import StoreUnavailable

def fail():
    raise StoreUnavailable("no such durability", hints=["choose a store that has it"])

async def fail_later():
    fail()

async def in_a_group():
    async with asyncio.TaskGroup() as group:
        group.create_task(fail_later())

def as_a_cause():
    try:
        fail()
    except StoreUnavailable as error:
        raise RuntimeError("the job is over") from error

def in_the_middle_of_another():
    try:
        fail()
    finally:
        raise KeyError("cleanup")
"""
WAYS = [
    "fail()",
    "as_a_cause()",
    "in_the_middle_of_another()",
    "asyncio.run(in_a_group())",
    "thread = threading.Thread(target=fail); thread.start(); thread.join()",
    "raise ExceptionGroup('two', [ValueError(), StoreUnavailable('x', hints=['choose a store that has it'])])",
]


@pytest.mark.parametrize("way", WAYS)
def test_a_traceback_shows_hints(way: str) -> None:
    ran = subprocess.run([sys.executable, "-c", RAISE + way], capture_output=True, text=True, timeout=60, check=False)
    assert HINT in ran.stderr, ran.stderr
