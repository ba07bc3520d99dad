"""A temporary directory and the processes of one demo.

    ROOT/world/            counted by the world: requests.jsonl, RUN.outbox, RUN.saves
    ROOT/RUN/              the shop that the run's agent works on
    ROOT/demo.db           the store
    ROOT/RUN.log           stderr of the agents of a run

Nothing is shared with another demo. Every wait has a bound, and only processes started here are ended here. They also
end when this process dies, because their standard input is a pipe from it (wire.py).
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final

import relight
from relight.demo import shop
from relight.errors import AgentFailed, RelightError

START_SECONDS: Final = 60.0
END_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.01
LOG_LINES: Final = 8
_NOT_INHERITED: Final = ("RELIGHT_", "PYTHONSTARTUP", "PYTHONINSPECT")


class Player:
    """One process of the demo."""

    def __init__(self, process: subprocess.Popen[bytes], what: str, log: Path) -> None:
        self._process = process
        self._what = what
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_ready(self) -> None:
        """Wait until the process reports that it works."""
        pipe = self._process.stdout
        assert pipe is not None
        readable, _, _ = select.select([pipe], [], [], START_SECONDS)
        if not readable or pipe.readline() != b"ready\n":
            raise self.failed("did not start")

    def ended(self) -> bool:
        """Has it ended? AgentFailed if it ended with an error."""
        code = self._process.poll()
        if code:
            raise self.failed(f"ended with {code}")
        return code == 0

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for its end; AgentFailed if it ended with an error."""
        try:
            self._process.wait(max(seconds, 0.0))
        except subprocess.TimeoutExpired:
            return False
        return self.ended()

    def wait_end(self) -> None:
        """Wait for its end; AgentFailed after END_SECONDS."""
        if not self.wait(END_SECONDS):
            raise self.failed(f"did not end within {END_SECONDS:.0f} s")

    def kill(self) -> bool:
        """Kill it with SIGKILL and wait. True if the signal ended it, False if it had ended before."""
        self._process.kill()
        code = self._process.wait(END_SECONDS)
        self._close_pipes()
        return code == -signal.SIGKILL

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def failed(self, why: str) -> AgentFailed:
        """The error for a process that failed, with the end of its log."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines() if self._log.exists() else []
        return AgentFailed(f"{self._what} {why}", evidence=lines[-LOG_LINES:])


class Stage:
    """A directory and its processes. Leaving the context ends them and removes the directory."""

    def __init__(self, *, keep: bool) -> None:
        self.keep = keep
        try:
            self.root = Path(tempfile.mkdtemp(prefix="relight-demo-")).resolve()
        except OSError as error:
            raise RelightError(
                f"cannot create a temporary directory: {error}", hints=["TMPDIR=/path/you/can/write relight demo"]
            ) from None
        self.world = self.root / "world"
        self.store = self.root / "demo.db"
        self._players: list[Player] = []

    def __enter__(self) -> Stage:
        self.world.mkdir()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # SIGKILL without asking: nothing of the demo is worth a clean end, and the directory goes next.
        for player in self._players:
            player.kill()
        if not self.keep:
            shutil.rmtree(self.root, ignore_errors=True)

    def shop(self, run: str) -> Path:
        """The directory of a run."""
        return self.root / run

    def lay_out(self, run: str) -> None:
        """Create the shop of a run."""
        shop.lay_out(self.shop(run))

    def start_world(
        self, *, think_seconds: float, transit_seconds: float = 0.0, hasty: str = "", slow: str = ""
    ) -> None:
        """Start the scripted model and the mail server, and wait until they answer."""
        times = ["--think", str(think_seconds), "--transit", str(transit_seconds)]
        self._start("world", self.world, [*times, "--hasty", hasty, "--slow", slow]).wait_ready()

    def start_agent(self, run: str, *, durable: bool = True) -> Player:
        """Start the agent of a run."""
        saves = self.world / f"{run}.saves"
        arguments = ["--store", str(self.store), "--saves", str(saves)] if durable else []
        return self._start("agent", self.shop(run), arguments)

    def _start(self, module: str, directory: Path, arguments: list[str]) -> Player:
        log = self.root / f"{directory.name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", f"relight.demo.{module}", *arguments],
                cwd=directory,
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,  # Ctrl-C reaches this process only, which ends the others
            )
        player = Player(process, f"the demo's {module}", log)
        self._players.append(player)
        return player


def _environment() -> dict[str, str]:
    """This environment with the same relight on the path and without RELIGHT_ settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
    here = str(Path(relight.__file__).resolve().parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
    return environment


def wait_until(condition: Callable[[], bool], player: Player, what: str) -> None:
    """Wait for a condition that a running process brings about; AgentFailed if it ends first."""
    deadline = time.monotonic() + END_SECONDS
    while not condition():
        if player.ended():
            if condition():  # it may have become true after the last check
                return
            raise player.failed(f"ended before {what}")
        if time.monotonic() > deadline:
            raise player.failed(f"ran {END_SECONDS:.0f} s without {what}")
        time.sleep(POLL_SECONDS)


@contextmanager
def ending_cleanly() -> Iterator[None]:
    """Make SIGTERM and SIGHUP end the demo as Ctrl-C does, through every `finally`."""

    def stop(number: int, frame: FrameType | None) -> None:
        for one in signals:
            signal.signal(one, signal.SIG_IGN)  # cleaning up must not be interrupted
        raise KeyboardInterrupt

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {one: signal.signal(one, stop) for one in signals}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
