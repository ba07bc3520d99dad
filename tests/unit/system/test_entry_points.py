"""A distribution that adds an agent and a runtime by entry points, without a change here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from relight import wiring, wiring_agents
from relight.errors import UsageError
from relight.ports.agent import Line
from relight.system import entry_points
from relight.testing.agent_kit import AgentChecks
from relight.testing.runtime_kit import RuntimeChecks

_MODULE = Path(__file__).parents[2] / "support" / "third_party" / "tiny_agent.py"
_POINTS = """\
[relight.agents]
tiny = tiny_agent:AGENT
claude = tiny_agent:AGENT
broken = tiny_broken:AGENT
misnamed = tiny_agent:AGENT
[relight.runtimes]
tiny-runtime = tiny_agent:make_runtime
[relight.workspaces]
tiny-files = tiny_agent:AGENT
[relight.blobs]
tinyblobs = tiny_agent:nothing
"""
_AGENT = """\
#!{python}
import json, os, sys
words = sys.argv[1:]
path = os.path.join(os.environ["HOME"], ".tiny", words[1] + ".jsonl")
os.makedirs(os.path.dirname(path), exist_ok=True)
begun = os.path.exists(path)
with open(path, "a") as file:
    def say(**line):
        file.write(json.dumps(line) + "\\n")
        file.flush()
    if not begun:
        say(cwd=os.getcwd())
        say(tiny="1", by="user", text=words[-1])
        say(tiny="2", by="model", text="", calls=[dict(id="c1", name="shell", arguments=dict(cmd="true"))])
        os.kill(os.getpid(), 9)
    say(tiny="3", by="user", text=words[-1])
    say(tiny="4", by="model", text="done")
"""


@pytest.fixture
def distribution(tmp_path: Path) -> Path:
    """A directory with the module and the metadata of its distribution, as an installer leaves them."""
    place = tmp_path / "site"
    metadata = place / "tiny_agent-1.2.dist-info"
    metadata.mkdir(parents=True)
    shutil.copy(_MODULE, place)
    (place / "tiny_broken.py").write_text("raise RuntimeError('out of order')\n")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-agent\nVersion: 1.2\n")
    (metadata / "entry_points.txt").write_text(_POINTS)
    return place


@pytest.fixture
def added(distribution: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module, with its distribution on this process's path."""
    monkeypatch.syspath_prepend(str(distribution))
    caches = (
        entry_points.installed,
        entry_points._may_be_any,
        wiring_agents._added,
        wiring_agents._object,
        wiring_agents._adapter,
    )
    for one in caches:
        one.cache_clear()
    yield __import__("tiny_agent")
    for one in caches:
        one.cache_clear()
    for name in ("tiny_agent", "tiny_broken"):
        sys.modules.pop(name, None)


def _program(tmp_path: Path) -> Path:
    program = tmp_path / "tiny"
    program.write_text(_AGENT.format(python=sys.executable))
    program.chmod(0o700)
    return program


def test_an_agent_and_a_runtime_of_another_distribution_run_die_and_are_resumed(
    distribution: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    given = {**os.environ, "PYTHONPATH": str(distribution), "RELIGHT_STORE": str(tmp_path / "r.db")}
    given |= {"HOME": str(tmp_path), "RELIGHT_HINTS": "0"}

    def relight(*words: str) -> Any:
        command = [sys.executable, "-m", "relight", *words]
        return subprocess.run(command, cwd=work, env=given, capture_output=True, text=True, timeout=60, check=False)

    ran = relight("run", "--name", "one", "--runtime", "tiny-runtime", "--", str(_program(tmp_path)), "make it")
    assert ran.returncode == 0, ran.stderr
    shown = json.loads(relight("show", "one", "--json").stdout)
    assert (shown["agent"], shown["status"], shown["runtime"]) == ("tiny", "completed", "tiny-runtime")
    lines = [json.loads(line) for line in next((tmp_path / ".tiny").iterdir()).read_text().splitlines()]
    answered = [line for line in lines if line.get("of") == "c1"]
    assert len(answered) == 1 and "outcome unknown" in answered[0]["text"].lower()
    said = json.loads(relight("doctor", "--json").stdout)
    found = {one["text"]: one["fine"] for one in said if one["what"] == "added"}
    assert [text for text, fine in found.items() if fine] == [
        "agent 'tiny' of tiny-agent 1.2",
        "runtime 'tiny-runtime' of tiny-agent 1.2",
    ]
    wrong = "\n".join(text for text, fine in found.items() if not fine)
    for words in (
        "'claude' of tiny-agent 1.2 is not used: 'claude' is built in",
        "RuntimeError: out of order",
        "its adapter calls itself 'tiny'",
        "expected a function, not Registration",
        "has no attribute 'nothing'",
    ):
        assert words in wrong


def test_a_list_and_a_library_session_read_no_metadata_of_distributions(distribution: Path, tmp_path: Path) -> None:
    program = """
import sys, relight
with relight.open(sys.argv[1]) as rl:
    with rl.session("one") as s:
        s.append({"role": "user", "content": "hello"})
    assert len(list(rl.sessions.list())) == 1
assert "importlib.metadata" not in sys.modules
"""
    command = [sys.executable, "-c", program, str(tmp_path / "r.db")]
    given = {**os.environ, "PYTHONPATH": str(distribution), "HOME": str(tmp_path)}
    subprocess.run(command, check=True, timeout=60, env=given)


def test_names_find_what_was_added_and_say_what_is_there(added: Any) -> None:
    agents = wiring_agents.Agents()
    assert isinstance(agents.named("tiny"), added.Tiny)
    assert isinstance(agents.of(["/bin/tiny", "go"]), added.Tiny)
    assert agents.of(["true"]).name == "command"
    assert agents.named("claude").name == "claude"
    assert agents.headless("tiny") == ("tiny",)
    assert "tiny" in [one.name for one in agents.known()]
    with pytest.raises(UsageError, match="no runtime called 'none'") as refused:
        wiring._added(entry_points.RUNTIMES, "none", "runtime", wiring.RUNTIMES)
    assert "process, tmux, sandbox, tiny-runtime" in refused.value.hints[0]


def _checks(adapter_: Any) -> type[AgentChecks]:
    class TinyChecks(AgentChecks):
        adapter = adapter_
        command = ("tiny", "do it")

        def conversation(self) -> Sequence[Line]:
            calls = [{"id": name, "name": "shell", "arguments": {"cmd": name}} for name in ("c1", "c2")]
            return [
                {"tiny": "1", "by": "user", "text": "do it"},
                {"tiny": "2", "by": "model", "text": "", "calls": calls},
                {"tiny": "3", "by": "tool", "of": "c1", "text": "one"},
                {"tiny": "4", "by": "tool", "of": "c2", "text": "two"},
                {"tiny": "5", "by": "model", "text": "done"},
            ]

    return TinyChecks


def test_the_kit_holds_the_added_agent_and_finds_a_planted_fault(added: Any, tmp_path: Path) -> None:
    for check in _checks(added.Tiny())(tmp_path).checks():
        check()

    class Forgetful(added.Tiny):  # type: ignore[misc]
        def answered(self, results: Any, lines: Any, *, at_us: int) -> list[Line]:
            return list(super().answered(results, lines, at_us=at_us)[:1])

    faulty = _checks(Forgetful())(tmp_path / "faulty")
    with pytest.raises(AssertionError):
        faulty.check_open_calls_are_answered_once_and_in_order()


def test_the_kit_holds_the_added_runtime_and_finds_a_planted_fault(added: Any, tmp_path: Path) -> None:
    class Losing(added.TinyRuntime):  # type: ignore[misc]
        def spawn(self, command: Sequence[str], **given: Any) -> Any:
            return super().spawn(command[:-1], **given)

    def kit(made: type[Any], directory: Path) -> RuntimeChecks:
        class TinyRuntimeChecks(RuntimeChecks):
            def make(self) -> Any:
                return made()

        directory.mkdir()
        return TinyRuntimeChecks(directory)

    whole = kit(added.TinyRuntime, tmp_path / "whole")
    for check in whole.checks():
        if check.__name__ in ("check_words_arrive_exactly", "check_what_cannot_start_is_refused"):
            check()
    faulty = kit(Losing, tmp_path / "faulty")
    words = next(check for check in faulty.checks() if check.__name__ == "check_words_arrive_exactly")
    with pytest.raises(AssertionError):
        words()
