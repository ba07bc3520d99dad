"""Every runtime keeps the public kit's promises; one that breaks a promise is found out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from relight.ports.runtime import Exit, Runtime
from relight.runtimes.process import ProcessRuntime
from relight.runtimes.sandbox import SandboxRuntime
from relight.runtimes.tmux import TmuxRuntime
from relight.testing.recorder_runtime import RecordedChild, RecorderRuntime
from relight.testing.runtime_kit import RuntimeChecks, Seen, Started
from tests.support.tmux_servers import Sockets


class ProcessChecks(RuntimeChecks):
    def make(self) -> Runtime:
        return ProcessRuntime()


class TmuxChecks(RuntimeChecks):
    has_places = True

    def __init__(self, directory: Path, socket: Path) -> None:
        super().__init__(directory)
        self.socket = socket

    def make(self) -> Runtime:
        return TmuxRuntime(self.socket)


class SandboxChecks(RuntimeChecks):
    orphans_survive = False

    def make(self) -> Runtime:
        return SandboxRuntime(ProcessRuntime(), self.directory / "homes")


class SandboxInTmuxChecks(TmuxChecks):
    orphans_survive = False

    def make(self) -> Runtime:
        return SandboxRuntime(TmuxRuntime(self.socket), self.directory / "homes")


class RecorderChecks(RuntimeChecks):
    has_places = True
    captures = False

    def make(self) -> Runtime:
        return RecorderRuntime()

    def seen(self, started: Started) -> Seen:
        child = started.child
        assert isinstance(child, RecordedChild)
        words, environment = list(child.command[6:]), {**os.environ, **child.environment}
        return Seen(words=words, environment=environment, directory=os.path.realpath(child.directory))

    def tell(self, started: Started, order: str) -> None:
        child, runtime = started.child, self.runtime
        assert isinstance(child, RecordedChild) and isinstance(runtime, RecorderRuntime)
        verb, _, rest = order.partition(" ")
        if verb in ("exit", "die"):
            child.finish(Exit(code=int(rest)) if verb == "exit" else Exit(signal=int(rest)))
        elif order == "helper apart":
            runtime.leave_behind(started.session)


@pytest.fixture
def kit(request: pytest.FixtureRequest, tmp_path: Path, sockets: Sockets) -> Iterator[RuntimeChecks]:
    kind = request.param
    yield kind(tmp_path, sockets.new()) if issubclass(kind, TmuxChecks) else kind(tmp_path)


KINDS = [ProcessChecks, TmuxChecks, RecorderChecks]
IN_A_SANDBOX = [SandboxChecks, SandboxInTmuxChecks]


@pytest.mark.parametrize("kit", KINDS, indirect=True, ids=[kind.__name__ for kind in KINDS])
def test_a_runtime_keeps_every_promise_of_the_kit(kit: RuntimeChecks) -> None:
    keeps_its_promises(kit)


@pytest.mark.parametrize("kit", IN_A_SANDBOX, indirect=True, ids=[kind.__name__ for kind in IN_A_SANDBOX])
def test_a_sandbox_keeps_every_promise_of_the_kit(kit: RuntimeChecks) -> None:
    keeps_its_promises(kit)


def keeps_its_promises(kit: RuntimeChecks) -> None:
    checks = list(kit.checks())
    assert len(checks) >= 15
    for check in checks:
        check()
