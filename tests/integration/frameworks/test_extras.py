"""Each framework is an extra: relight imports none of them, and where one is missing it says what installs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

EXTRAS = {
    "relight.frameworks.langgraph": ("langgraph", "langgraph"),
    "relight.frameworks.claude_agent_sdk": ("claude_agent_sdk", "claude-agent-sdk"),
    "relight.frameworks.openai_agents": ("agents", "openai-agents"),
    "relight.frameworks.cursor": ("cursor_sdk", "cursor"),
}
_MISSING = """
import importlib, sys
sys.modules[sys.argv[2]] = None
import relight
try:
    module = importlib.import_module(sys.argv[1])
    getattr(module, module.__all__[0])
except relight.errors.MissingExtra as error:
    print(error.hints[0])
"""
_LOADED = """
import relight, relight.frameworks, sys
rl = relight.open("memory:")
rl.sessions.shared("one", agent="x").close()
print(sorted(set(sys.argv[1:]) & set(sys.modules)))
"""


def python(script: str, *words: str) -> str:
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("module", EXTRAS)
def test_a_missing_package_is_named_with_the_command_that_installs_it(module: str) -> None:
    package, extra = EXTRAS[module]
    assert python(_MISSING, module, package) == f"pip install 'relight[{extra}]'"


@pytest.mark.parametrize("missing", ["langgraph", "langchain_core"])
def test_a_command_whose_package_is_missing_says_what_installs_it(missing: str) -> None:
    script = """
import sys
sys.modules[sys.argv[1]] = None
from relight.cli.app.group import run
print(run(["import-langgraph", "threads.sqlite"]))
"""
    done = subprocess.run([sys.executable, "-c", script, missing], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), "pip install 'relight[langgraph]'" in done.stderr) == ("2", True), done.stderr


def test_a_thread_is_read_where_its_framework_is_not_installed() -> None:
    script = """
import sys
sys.modules["langgraph"] = sys.modules["langchain_core"] = None
import relight.wiring
from relight.journal import extensions
record = {"kind": "put", "id": "1", "lists": {"messages": {"add": [{"role": "user", "content": "hi"}], "size": 1}}}
[reader] = extensions.installed().record_readers()
print(reader.spoken(record), reader.conversation({1: record}) == reader.spoken(record))
"""
    assert python(script) == "[{'role': 'user', 'content': 'hi'}] True"


def test_relight_imports_none_of_them() -> None:
    packages = [package for package, _ in EXTRAS.values()]
    assert python(_LOADED, *packages, "openai", "pydantic", "httpx", "anyio") == "[]"
