"""A dead session is brought back into a live runtime: nine scenarios, on the recorder and on tmux."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

import relight
from relight.errors import Ambiguous, NotFound, RelightError
from relight.library.facade import Relight
from relight.ports.runtime import Exit
from relight.runtimes.tmux.runtime import TmuxRuntime
from relight.supervision.agent import AgentSupervision
from relight.system.machine import SystemEntropy
from relight.testing.recorder_runtime import RecordedChild, RecorderRuntime
from relight.values.execution import Started
from relight.values.options import ResumeOptions, RunOptions
from relight.wiring import open_context
from tests.integration.processes.conftest import Open
from tests.support.program_harness import ProgramHarness
from tests.support.shell import logical_dump

COMMAND = ["claude", "-p", "do the task", "--output-format", "stream-json", "--verbose"]
TOUCHING = {"spawn", "destroy", "end", "deliver"}


class Twins(SystemEntropy):
    """Ids that begin alike."""

    def session_id(self) -> str:
        return "abcdef" + super().session_id()[6:]


class Told:
    """Any runtime, and what it was asked."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self.asked: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._runtime, name)
        if not callable(found):
            return found

        def ask(*given: Any, **named: Any) -> Any:
            handle = named.get("handle", given[0] if given and isinstance(given[0], str) else "")
            self.asked.append((name, handle))
            return found(*given, **named)

        return ask

    def touched(self) -> list[tuple[str, str]]:
        return [one for one in self.asked if one[0] in TOUCHING]


class World:
    """A harness whose sessions live in one runtime, driven in this process."""

    def __init__(self, harness: ProgramHarness, name: str, runtime: Any) -> None:
        self.s, self.name, self.runtime = harness, name, Told(runtime)

    def opened(self, act: Callable[[Relight], Any]) -> Any:
        relight.open(self.s.store).close()
        with open_context(str(self.s.store)) as context:
            return act(Relight(msgspec.structs.replace(context, runtimes=lambda *_: self.runtime)))

    def run(self, name: str = "job") -> str:
        """A session that has ended, with a handle; its id."""

        def act(rl: Relight) -> str:
            workspace = {"main": str(self.s.work)}
            info = rl.runs.create(
                COMMAND,
                RunOptions(
                    directory=str(self.s.work), agent="claude", name=name, runtime=self.name, workspace=workspace
                ),
            )
            rl.runs.supervise(info.id).run()
            return info.id

        found: str = self.opened(act)
        self.runtime.asked.clear()
        return found

    def resume(self, ref: str, prompt: str | None = "go on") -> Started:
        def act(rl: Relight) -> Started:
            supervision = rl.runs.supervise(ref, ResumeOptions(prompt=prompt))
            supervision.run()
            assert isinstance(supervision, AgentSupervision) and supervision.started is not None
            return supervision.started

        found: Started = self.opened(act)
        return found

    def refused(self, ref: str) -> RelightError:
        """The error, and nothing of the store or the runtime was touched."""
        before = logical_dump(self.s.store)
        with pytest.raises(RelightError) as caught:
            self.resume(ref)
        assert self.runtime.touched() == []
        assert logical_dump(self.s.store) == before
        return caught.value


def act_as_the_agent(child: RecordedChild) -> None:
    done = subprocess.run(
        child.command,
        cwd=child.directory,
        env={**os.environ, **child.environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    child.stdout = done.stdout.splitlines()
    child.finish(Exit(code=done.returncode))


@pytest.fixture(params=["recorder", "tmux"])
def world(
    request: pytest.FixtureRequest, harness: Open, monkeypatch: pytest.MonkeyPatch, program: Any
) -> Iterator[World]:
    s = harness([{"text": "first", "calls": [{"shell": "echo one > a.txt"}]}, {"text": "fin"}, {"text": "more"}])
    environment = s.environment()
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if request.param == "recorder":
        yield World(s, "recorder", RecorderRuntime(on_spawn=act_as_the_agent))
    else:
        program("tmux")
        yield World(s, "tmux", TmuxRuntime(s.store.parent / f"{s.store.name}.run" / "tmux"))


def test_respawn_and_persist(world: World) -> None:
    session = world.run()
    before = world.s.known()
    started = world.resume("job")
    assert before.handle
    assert (started.session, started.handle, started.rung) == (session, before.handle, "native")
    assert "--resume" in started.command and not started.prompt_sent, (
        "an agent that remembers is not told its task again"
    )
    touched = [verb for verb, _ in world.runtime.touched() if verb != "end"]
    assert touched == ["destroy", "spawn"], "the stale place goes first, then the new one comes"
    assert {handle for verb, handle in world.runtime.touched() if verb == "destroy"} == {before.handle}
    after = world.s.known()
    assert (after.status, after.handle, after.attempt, after.said) == ("completed", before.handle, 2, "more")
    world.s.assert_whole("do the task", "first", "fin", "go on")


def test_no_handle(world: World) -> None:
    """It ran as a plain process before: nothing is destroyed, and the new place is named by the id."""
    s = world.s
    assert s.run().returncode == 0
    session = s.known().id
    with relight.open(s.store) as rl:
        identity = rl.store.find(session)
    assert identity is not None and s.known().handle is None
    started = world.resume(session)
    assert [verb for verb, _ in world.runtime.touched() if verb != "end"] == ["spawn"]
    assert started.handle == session[:8]
    world.s.assert_whole("do the task", "first", "fin")


def test_crashed_working(world: World) -> None:
    """Its process is gone and its record says `working`: it is `terminated` first, and comes back."""
    s = world.s
    s.play([{"text": "first", "calls": [{"shell": "echo one > a.txt"}]}, [{"hang": "before"}, {"text": "fin"}]])
    os.environ["ANTHROPIC_BASE_URL"] = s.model.url
    child = s.begin()
    s.model.wait_for(2)
    child.kill()
    child.wait()
    started = world.resume("job", None)
    assert started.rung == "native"
    assert "terminated" in str([step.started for step in s.steps() if step.kind == "attempt"])
    world.s.assert_whole("do the task", "first")


def test_archived_refused(world: World) -> None:
    world.run()
    assert world.s.relight("archive", "job").returncode == 0
    error = world.refused("job")
    assert "archived" in str(error)


def test_workspace_missing(world: World) -> None:
    world.run()
    shutil.rmtree(world.s.work)
    assert f"workspace missing: {world.s.work}" in str(world.refused("job"))


def test_workspace_corrupted(world: World) -> None:
    world.run()
    shutil.rmtree(world.s.work)
    world.s.work.write_text("not a directory")
    assert str(world.s.work) in str(world.refused("job"))


def test_unknown_id(world: World) -> None:
    world.run()
    assert isinstance(world.refused("ffffffffffff"), NotFound)
    assert world.s.relight("resume", "ffffffffffff").returncode == 3


def test_ambiguous_prefix(world: World) -> None:
    ids: list[str] = []
    world.run()
    with relight.open(world.s.store, entropy=Twins()) as rl:
        for name in ("one", "other"):
            ids.append(rl.runs.create(["true"], RunOptions(directory=str(world.s.work), agent="command", name=name)).id)
    error = world.refused("abcdef")
    assert isinstance(error, Ambiguous)
    said = " ".join([str(error), *error.hints, *error.evidence])
    assert all(name in said for name in ("one", "other"))


def test_prefix_resolves(world: World) -> None:
    session = world.run()
    assert world.resume(session[:10]).session == session
