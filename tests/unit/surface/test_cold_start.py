"""From the start of a process to its first durable step: what is imported for it, and that the step imports nothing.

Modules are counted and not timed: how long the machine takes for one differs from hour to hour.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

MODULES = 269
"""ours and others', that a program imports until its first step is durable; fewer is better"""
OURS = 181
HEAVY = ("asyncio", "concurrent", "click", "importlib.metadata", "inspect", "logging", "shutil", "signal", "subprocess")
OF_OTHER_VERBS = (
    "relight.files",
    "relight.history.fork",
    "relight.history.listing",
    "relight.history.rewind",
    "relight.library.sessions",
    "relight.operations",
    "relight.ports.agent",
    "relight.sessions.calls.effects",
    "relight.sessions.calls.signatures",
    "relight.sessions.entry.children",
    "relight.sessions.turns",
    "relight.stores.memory",
    "relight.supervision",
    "relight.system.threads.user_threads",
)

FIRST_STEP = """
import sys
before = set(sys.modules)
import relight
with relight.session("x", store=sys.argv[1]) as s:
    s.append({"role": "user", "content": "hello"})
    print(*sorted(set(sys.modules) - before), sep="\\n")
"""


def ran(program: str, *words: object, environment: Mapping[str, str] | None = None) -> list[str]:
    """The lines that a program prints in a process of its own, with our dependencies alone: msgspec imports
    `typing_extensions`, and with it `inspect`, where it finds it."""
    alone = "import sys; sys.modules['typing_extensions'] = None\n"
    done = subprocess.run(
        [sys.executable, "-c", alone + program, *map(str, words)],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_import_alone_imports_nothing_else() -> None:
    names = ran("import sys; before = set(sys.modules); import relight; print(*set(sys.modules) - before)")[0].split()
    assert set(names) - {"__future__"} == {"relight"}


def test_the_first_step_imports_only_what_it_needs(tmp_path: Path) -> None:
    names = ran(FIRST_STEP, tmp_path / "r.db")
    if "psutil" in names:  # the source of processes where there is no /proc: its own modules are not ours to choose
        brought = set(ran("import psutil, sys; print(*sys.modules, sep='\\n')"))
        names = [name for name in names if name not in brought]
    assert "relight.stores.sqlite.writer" in names
    assert [name for name in names if name in HEAVY] == []
    assert [name for name in names for other in OF_OTHER_VERBS if name == other or name.startswith(f"{other}.")] == []
    ours = [name for name in names if name.partition(".")[0] == "relight"]
    assert len(ours) <= OURS, ours
    assert len(names) <= MODULES, names


FIRST_APPEND = """
import sys, relight
class Sdk:
    def __init__(self, data): self.data = data
    def model_dump(self, **how): return self.data
for _ in range(2):
    with relight.session("x", store=sys.argv[1], {options}) as s:
        before = set(sys.modules)
        {append}
        print(*set(sys.modules) - before)
"""
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}
TOOL_USE = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
TEXT = {"type": "text", "text": "hi"}
SPENT = {"input_tokens": 1, "output_tokens": 1}
RESPONSE = {"type": "message", "role": "assistant", "content": [TEXT], "stop_reason": "end_turn", "usage": SPENT}
MESSAGES: dict[str, dict[str, object]] = {
    "prompt": {"role": "user", "content": "hello"},
    "chat call": {"role": "assistant", "content": None, "tool_calls": [CALL]},
    "chat result": {"role": "tool", "tool_call_id": "c1", "content": "seen"},
    "anthropic call": {"role": "assistant", "content": [TOOL_USE]},
    "responses item": {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
    "gemini call": {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]},
    "bedrock call": {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c", "name": "look", "input": {}}}]},
    "native line": {"type": "user", "uuid": "1", "sessionId": "2", "message": {"role": "user", "content": "x"}},
    "unknown line": {"type": "thread.started", "thread_id": "1"},
    "large": {"role": "user", "content": "word " * 5_000},
    "secret": {"role": "user", "content": "password=hunter2-hunter2 sk-ant-" + "a1" * 30},
}
USAGE = f's.append({{"role": "assistant", "content": "hi"}}, usage={SPENT})'
SHAPES = {
    **{shape: f"s.append({message})" for shape, message in MESSAGES.items()},
    "usage": USAGE,
    "response of an SDK": f"s.append(Sdk({RESPONSE}))",
    "state": 's.state["n"] = 1; s.append({"role": "user", "content": "hello"})',
    "batch": 'with s.batch("b"): s.append({"role": "user", "content": "hello"})',
    "partial": 's.partial("half")',
    "checkpoint": 's.checkpoint("best")',
    "fail": 's.fail("out of money")',
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_first_append_imports_nothing(tmp_path: Path, shape: str) -> None:
    """An import inside it that a signal handler interrupts would leave the module's import lock taken."""
    program = FIRST_APPEND.format(append=SHAPES[shape], options="")
    assert ran(program, tmp_path / "r.db") == ["", ""]


@pytest.mark.parametrize(
    "options", ["redact=True", "budget_tokens=1000", "budget=1, model='own'", "time_limit=60", "model='gpt-5-mini'"]
)
def test_nor_does_that_of_a_session_with_options(tmp_path: Path, options: str) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text("[models.own]\ninput = 1.0\noutput = 2.0\n", encoding="utf-8")
    program = FIRST_APPEND.format(append=USAGE, options=options)
    assert ran(program, tmp_path / "r.db", environment={"RELIGHT_PRICES": str(prices)}) == ["", ""]


def test_nor_does_that_of_a_session_with_files(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    program = FIRST_APPEND.format(append=USAGE, options=f"workspace={str(tmp_path / 'work')!r}")
    assert ran(program, tmp_path / "r.db") == ["", ""]


def test_nor_does_that_of_a_child(tmp_path: Path) -> None:
    program = """
import sys, relight
with relight.session("x", store=sys.argv[1]) as s, s.spawn("y") as child:
    before = set(sys.modules)
    child.append({"role": "assistant", "content": "hi"}, usage={"input_tokens": 1, "output_tokens": 1})
    print(*set(sys.modules) - before)
"""
    assert ran(program, tmp_path / "r.db") == [""]
