"""The adapters against the real agents: start, read, write elsewhere, resume; what the model is asked is the proof.

Offline: the model is a script on 127.0.0.1. Run with `pytest -m agents tests/integration/agents`; the agents are
installed once.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from relight.agents.claude_code.adapter import ClaudeCode
from relight.agents.codex.adapter import Codex
from relight.ports.agent import (
    AgentAdapter,
    Ask,
    Entry,
    Hooks,
    Launch,
    NativeCall,
    NativeResult,
    Rung,
    Surroundings,
    Transcript,
)
from tests.support import real_agents as real
from tests.support.fake_model import FakeModel, Request, texts, unpaired

pytestmark = pytest.mark.agents

SECONDS = 60.0
UNKNOWN = "outcome unknown: the machine stopped while it ran; look before you run it again"


@dataclass(frozen=True, kw_only=True)
class Harness:
    """One agent in one home and one directory."""

    adapter: AgentAdapter
    agent: real.Claude | real.Codex

    @property
    def surroundings(self) -> Surroundings:
        return Surroundings(directory=str(self.agent.cwd), environment=self.agent.environment())

    @property
    def command(self) -> tuple[str, ...]:
        """As a user gives it."""
        if isinstance(self.agent, real.Claude):
            flags = ("--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions")
            return (str(real.claude_binary()), "-p", "do it", *flags)
        return (str(real.codex_binary()), "exec", "--json", "--skip-git-repo-check", "do it")

    def launch(
        self, rung: Rung, native_id: str | None, prompt: str | None = None, hooks: Hooks | None = None
    ) -> Launch:
        return self.adapter.launch(
            Ask(
                command=self.command,
                surroundings=self.surroundings,
                rung=rung,
                native_id=native_id,
                prompt=prompt,
                hooks=hooks,
            )
        )

    def run(self, rung: Rung, native_id: str | None, prompt: str | None = None) -> str:
        """Run an attempt to its end; the id it tells."""
        done = real.run(self.agent, list(self.launch(rung, native_id, prompt).command), SECONDS)
        assert done.returncode == 0, done.stderr
        [reported] = self.reported(done)
        return reported

    def reported(self, done: CompletedProcess[str]) -> set[str]:
        lines = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
        return {name for line in lines if (name := self.adapter.id_in_output(line)) is not None}

    def read(self, native_id: str) -> Transcript:
        path = self.adapter.locate(native_id, self.surroundings)
        assert path is not None
        return self.adapter.read(path)

    def write(self, entries: Sequence[Entry]) -> str:
        name = self.adapter.new_id()
        assert name is not None
        self.adapter.write([entry.line for entry in entries], name, self.surroundings)
        return name


def harness(kind: str, location: Path, url: str) -> Harness:
    home, cwd = location / "home", location / "work"
    home.mkdir(parents=True)
    cwd.mkdir()
    if kind == "claude":
        return Harness(adapter=ClaudeCode(), agent=real.Claude(home=home, cwd=cwd, url=url))
    codex = real.Codex(home=home, cwd=cwd, url=url)
    codex.configure()
    return Harness(adapter=Codex(), agent=codex)


def work(location: Path) -> list[Any]:
    """Words, thinking, a pair of calls of which one fails, a file, an end; then one answer for every more prompt."""
    return [
        {"text": "look", "thinking": "hm", "calls": [{"shell": "echo one"}, {"shell": "echo two; false"}]},
        {"calls": [{"write": {"path": str(location / "file.txt"), "content": "hello\n"}}]},
        {"text": "all done"},
        {"text": "second done"},
        {"text": "third done"},
    ]


def keys(transcript: Transcript) -> list[str]:
    return [entry.key for entry in transcript.entries]


def remembers(request: Request, *said: str) -> None:
    """Every call in a request has one result, nothing was refused, and this was said."""
    assert request.problem == ""
    assert unpaired(request.items) == []
    everything = "\n".join(texts(request.items))
    for one in said:
        assert one in everything


@pytest.mark.parametrize("kind", ["claude", "codex"])
def test_a_session_goes_on_under_another_id_in_another_directory_in_a_blank_home(kind: str, tmp_path: Path) -> None:
    with FakeModel(work(tmp_path), strict=True) as model:
        here, there = harness(kind, tmp_path / "here", model.url), harness(kind, tmp_path / "there", model.url)
        began = time.time_ns() // 1000
        name = here.run("fresh", here.adapter.new_id())
        assert here.adapter.sessions(here.surroundings, since_us=began) == [name]
        first = here.read(name)
        assert first.torn == b""
        assert here.adapter.pending([entry.line for entry in first.entries]) == []
        assert [entry for entry in first.entries if entry.ends_turn][-1:] == list(first.entries[-1:])

        moved = there.write(first.entries)
        assert keys(there.read(moved)) == keys(first)
        assert there.run("native", moved, "again") == moved
        last = model.requests()[-1]
        remembers(last, "do it", "look", "one", "two", "all done", "again")
        assert len([item for item in last.items if item.kind == "call"]) == 3

        second = there.read(moved)
        assert keys(second)[: len(first.entries)] == keys(first)
        there.run("native", moved, "--help is what I say")
        remembers(model.requests()[-1], "do it", "all done", "again", "second done", "--help is what I say")


@pytest.mark.parametrize("kind", ["claude", "codex"])
def test_tokens_are_counted_once(kind: str, tmp_path: Path) -> None:
    script = [
        {
            "text": "a",
            "thinking": "b",
            "calls": [{"shell": "true"}],
            "usage": {"input_tokens": 100, "output_tokens": 7},
        },
        {"text": "end", "usage": {"input_tokens": 200, "output_tokens": 5}},
    ]
    with FakeModel(script) as model:
        here = harness(kind, tmp_path / "here", model.url)
        reported = [entry.usage for entry in here.read(here.run("fresh", here.adapter.new_id())).entries if entry.usage]
    assert sum(usage.input_tokens for usage in reported) == 300
    assert sum(usage.output_tokens for usage in reported) == 12


@pytest.mark.parametrize("kind", ["claude", "codex"])
def test_a_rewound_session_remembers_nothing_of_what_came_after(kind: str, tmp_path: Path) -> None:
    with FakeModel(work(tmp_path), strict=True) as model:
        here = harness(kind, tmp_path / "here", model.url)
        whole = here.read(here.run("fresh", here.adapter.new_id()))
        results = [location for location, entry in enumerate(whole.entries) if entry.key.startswith("result:")]
        cut = whole.entries[: results[1] + 1]
        rewound = here.write(cut)
        assert keys(here.read(rewound)) == keys(whole)[: len(cut)]
        before = len(model.requests())
        here.run("native", rewound, "differently")
        first = model.requests()[before]
        remembers(first, "do it", "one", "two", "differently")
        assert "all done" not in "\n".join(texts(first.items))
        assert len([item for item in first.items if item.kind == "call"]) == 2


@pytest.mark.parametrize("kind", ["claude", "codex"])
def test_a_call_cut_by_a_kill_is_answered_in_our_words_and_exactly_once(kind: str, tmp_path: Path) -> None:
    started = tmp_path / "started"
    slow = f"touch {shlex.quote(str(started))}; sleep 30"
    script = [{"calls": [{"shell": "echo one"}, {"shell": slow}]}, {"text": "all done"}]
    with FakeModel(script, strict=True) as model:
        here, there = harness(kind, tmp_path / "here", model.url), harness(kind, tmp_path / "there", model.url)
        name = here.adapter.new_id()
        process = real.spawn(here.agent, list(here.launch("fresh", name).command), tmp_path / "out")
        wait_until(started.exists)
        if kind == "claude":  # writes its transcript a moment after the tool has begun
            wait_until(lambda: any(str(started) in json.dumps(entry.line) for entry in here.read(str(name)).entries))
        os.killpg(process.pid, signal.SIGKILL)  # codex is started by a program that would leave it behind
        process.wait()
        if kind == "codex":
            [name] = here.adapter.sessions(here.surroundings)
        assert name is not None
        found = here.read(name)
        lines = [entry.line for entry in found.entries]
        open_calls = here.adapter.pending(lines)
        assert [slow in json.dumps(call.arguments) for call in open_calls][-1:] == [True]

        results = {call.id: NativeResult(text=UNKNOWN) for call in open_calls}
        repair = here.adapter.answered(results, lines, at_us=time.time_ns() // 1000)
        assert here.adapter.pending([*lines, *repair]) == []
        here.adapter.append(found.path, repair, offset=found.offset)
        again = here.read(name)
        assert keys(again) == [*keys(found), *(f"result:{call.id}" for call in open_calls)]

        moved = there.write(again.entries)
        before = len(model.requests())
        there.run("native", moved)
        here.run("native", name)
        for request in model.requests()[before:]:
            remembers(request, "do it", UNKNOWN, "Continue where you stopped.")
            assert [item.value for item in request.items if item.kind == "result"].count(UNKNOWN) == len(open_calls)


@pytest.mark.parametrize("kind", ["claude", "codex"])
def test_a_call_that_only_a_hook_told_of_can_be_put_into_the_session(kind: str, tmp_path: Path) -> None:
    with FakeModel(work(tmp_path), strict=True) as model:
        here = harness(kind, tmp_path / "here", model.url)
        whole = here.read(here.run("fresh", here.adapter.new_id()))
        calls = [location for location, entry in enumerate(whole.entries) if entry.key.startswith("call:")]
        lines = [entry.line for entry in whole.entries[: calls[1]]]  # the first call of two has been written
        tool = here.adapter.pending(lines)[0]
        hooked = NativeCall(id="toolu_hooked", name=tool.name, arguments=tool.arguments)
        now = time.time_ns() // 1000
        lines.append(here.adapter.asked(hooked, lines, at_us=now))
        assert [call.id for call in here.adapter.pending(lines)] == [tool.id, "toolu_hooked"]
        lines += here.adapter.answered(
            {tool.id: NativeResult(text="first text"), "toolu_hooked": NativeResult(text="second text")},
            lines,
            at_us=now,
        )
        name = here.adapter.new_id()
        assert name is not None
        here.adapter.write(lines, name, here.surroundings)
        before = len(model.requests())
        here.run("native", name, "go on")
        request = model.requests()[before]
        remembers(request, "do it", "first text", "second text", "go on")
        assert [item.id for item in request.items if item.kind == "call"] == [tool.id, "toolu_hooked"]


@pytest.mark.parametrize("kind", ["claude", "codex"])
def test_a_torn_transcript_is_mended_by_appending_nothing(kind: str, tmp_path: Path) -> None:
    with FakeModel(work(tmp_path), strict=True) as model:
        here = harness(kind, tmp_path / "here", model.url)
        name = here.run("fresh", here.adapter.new_id())
        whole = here.read(name)
        with whole.path.open("ab") as file:
            file.write(b'{"type":"user","uuid":"torn')
        torn = here.read(name)
        assert (torn.torn, keys(torn)) == (b'{"type":"user","uuid":"torn', keys(whole))
        here.adapter.append(torn.path, (), offset=torn.offset)
        here.run("native", name, "again")
        remembers(model.requests()[-1], "do it", "all done", "again")
        assert here.read(name).torn == b""


@pytest.mark.parametrize("kind", ["claude", "codex"])
def test_a_compacted_session_is_carried_as_the_agent_itself_remembers_it(kind: str, tmp_path: Path) -> None:
    script = [{"text": "look", "calls": [{"shell": "echo one"}]}, {"text": "all done"}, *[{"text": "more"}] * 9]
    with FakeModel(script, mode="requests") as model:
        here, there = harness(kind, tmp_path / "here", model.url), harness(kind, tmp_path / "there", model.url)
        name = here.run("fresh", here.adapter.new_id())
        if isinstance(here.agent, real.Claude):
            here.run("native", name, "/compact")
        else:
            config = here.agent.configure()
            config.write_text("model_auto_compact_token_limit = 100\n" + config.read_text())
            here.run("native", name, "grow")
            here.agent.configure()
        here.run("native", name, "after")
        found = here.read(name)
        assert not any(text == "do it" for text in _spoken(found))
        moved = there.write(found.entries)
        before = len(model.requests())
        there.run("native", moved, "last")
        here.run("native", name, "last")
        elsewhere, original = model.requests()[before], model.requests()[-1]
        assert _said(elsewhere) == _said(original)
        assert unpaired(elsewhere.items) == []


def _spoken(transcript: Transcript) -> list[str]:
    return [
        message["content"]
        for entry in transcript.entries
        if isinstance(message := entry.line.get("message"), dict) and isinstance(message.get("content"), str)
    ]


def _said(request: Request) -> list[Any]:
    """A request's conversation without what depends on the directory."""
    return [
        (item.kind, item.id, item.value)
        for item in request.items
        if item.kind != "system" and not str(item.value).startswith(("<environment_context>", "<system-reminder>"))
    ]


@pytest.mark.parametrize("kind", ["claude", "codex"])
def test_the_screen_of_a_resumed_session_shows_what_was_said(
    kind: str, tmp_path: Path, program: Callable[[str], str]
) -> None:
    with FakeModel(work(tmp_path)) as model:
        here = harness(kind, tmp_path / "here", model.url)
        moved = here.write(here.read(here.run("fresh", here.adapter.new_id())).entries)
        binary, *_ = here.command
        flags = () if kind == "claude" else ("--no-alt-screen",)
        ask = Ask(command=(binary, *flags), surroundings=here.surroundings, rung="native", native_id=moved)
        launch = here.adapter.launch(ask)
        assert (launch.headless, launch.prompt_sent) == (False, False)
        if kind == "claude":
            _seed_screen(here.agent)
        tmux = [program("tmux"), "-S", str(tmp_path / "tmux"), "-f", os.devnull]
        environment = {**here.agent.environment(), "TERM": "xterm-256color"}
        size = ["-x", "100", "-y", "50", "-c", str(here.agent.cwd)]
        keep = ["set-option", "-g", "remain-on-exit", "on", ";"]
        subprocess.run([*tmux, *keep, "new-session", "-d", *size, *launch.command], env=environment, check=True)
        try:

            def shows_all() -> bool:
                shown = subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True).stdout
                return all(text in shown for text in ("do it", "look", "all done"))

            wait_until(shows_all)
        finally:
            subprocess.run([*tmux, "kill-server"], check=True)


def _seed_screen(agent: real.Claude | real.Codex) -> None:
    """What a person has answered before Claude Code shows its prompt at once."""
    seeded = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "bypassPermissionsModeAccepted": True,
        "customApiKeyResponses": {"approved": [real.CLAUDE_KEY[-20:]], "rejected": []},
        "projects": {str(agent.cwd): {"hasTrustDialogAccepted": True}},
    }
    path = agent.home / ".claude.json"
    held = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**held, **seeded}))


def test_hooks_of_ours_run_beside_the_users_own(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.jsonl", tmp_path / "theirs"
    with FakeModel(work(tmp_path)) as model:
        here = harness("claude", tmp_path / "here", model.url)
        own = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": f"touch {shlex.quote(str(theirs))}"}]}]}}
        recorder = ("sh", "-c", f"cat >> {shlex.quote(str(ours))}; echo >> {shlex.quote(str(ours))}")
        hooks = Hooks(command=recorder, file=tmp_path / "settings.json")
        ask = Ask(
            command=(*here.command, "--settings", json.dumps(own)),
            surroundings=here.surroundings,
            rung="fresh",
            native_id=here.adapter.new_id(),
            hooks=hooks,
        )
        launch = here.adapter.launch(ask)
        for path, data in launch.files.items():
            path.write_bytes(data)
        done = real.run(here.agent, list(launch.command), SECONDS)
    assert done.returncode == 0, done.stderr
    reported = [json.loads(line)["hook_event_name"] for line in ours.read_text().splitlines() if line]
    assert {"PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop"} <= set(reported)
    assert theirs.exists()


@pytest.mark.parametrize("name", ["plain.dir_x", "a-\u00e9-\U0001f600", "/".join(["long \u00e9" * 15] * 3)])
def test_claude_code_finds_what_was_written_whatever_the_directory_is_called(name: str, tmp_path: Path) -> None:
    with FakeModel(work(tmp_path)) as model:
        first = harness("claude", tmp_path / "first", model.url)
        whole = first.read(first.run("fresh", first.adapter.new_id()))
        cwd = tmp_path / name
        cwd.mkdir(parents=True)
        odd = Harness(adapter=first.adapter, agent=real.Claude(home=first.agent.home, cwd=cwd, url=model.url))
        odd.run("native", odd.write(whole.entries), "again")
        remembers(model.requests()[-1], "do it", "all done", "again")


def wait_until(true: Any, seconds: float = SECONDS) -> None:
    """Wait for a condition, with a bound."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)
