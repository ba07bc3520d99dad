"""A temporary directory, the agents that work in it, and the world they talk to: a scripted model and a mail server.

    ROOT/RUN/            the shop that the run's agent works on
    ROOT/demo.db         the store
    ROOT/world.jsonl     every request of an agent, written before it is answered: all numbers are counted from it
    ROOT/agents.log      stderr of the agents

Each agent has a thread here that answers it, in order; a kill waits for that thread, so that nothing of a dead agent is
counted later. Every wait has a bound, and only processes started here are ended here.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

import relight
from relight.demo import shop
from relight.errors import AgentFailed, RelightError

END_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.01
LOG_LINES: Final = 8
INPUT_PRICE: Final = 3.0
OUTPUT_PRICE: Final = 15.0
"""price of a million tokens of the scripted model, so that pages have a cost to show"""
_NOT_INHERITED: Final = ("RELIGHT_", "PYTHONSTARTUP", "PYTHONINSPECT")


class Agent:
    """One process of the demo's agent, and the thread that answers it."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, answer: Callable[[dict[str, Any]], Any]) -> None:
        self._process = process
        self._log = log
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(answer,), daemon=True)
        self._thread.start()
        self.pid = process.pid

    def _serve(self, answer: Callable[[dict[str, Any]], Any]) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        # It may be killed before its reply, and a reply that cannot be written fails again when the pipe is closed.
        with suppress(OSError), self._process.stdin as replies, self._process.stdout as requests:
            for line in requests:
                self._ready.set()
                reply = answer(json.loads(line)) if line.endswith(b"\n") else None
                replies.write(b"" if reply is None else json.dumps(reply).encode() + b"\n")
                replies.flush()

    def wait_ready(self) -> None:
        """Wait until it begins to work."""
        if not self._ready.wait(END_SECONDS):
            raise self.failed("did not start")

    def wait(self, seconds: float = END_SECONDS) -> bool:
        """Has it ended within `seconds`? AgentFailed if with an error."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        if code:
            raise self.failed(f"ended with {code}")
        self._thread.join(END_SECONDS)
        return True

    def wait_end(self) -> None:
        """Wait for its end; AgentFailed if it does not come."""
        if not self.wait():
            raise self.failed(f"did not end within {END_SECONDS:.0f} s")

    def kill(self) -> bool:
        """Kill it with SIGKILL and wait. True if the signal ended it, False if it had ended before."""
        self._process.kill()
        code = self._process.wait(END_SECONDS)
        self._thread.join(END_SECONDS)
        return code == -signal.SIGKILL

    def failed(self, why: str) -> AgentFailed:
        """The error for an agent that failed, with the end of its log."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return AgentFailed(f"the demo's agent {why}", evidence=lines[-LOG_LINES:])


class Stage:
    """A directory and its processes. Leaving the context ends them and removes the directory."""

    def __init__(self, *, keep: bool, think_seconds: float = 0.0, transit_seconds: float = 0.0) -> None:
        """`think_seconds`: of the model, a reply; `transit_seconds`: of a mail, before and after its arrival."""
        self.keep = keep
        self.think_seconds, self._transit_seconds = think_seconds, transit_seconds
        try:
            self.root = Path(tempfile.mkdtemp(prefix="relight-demo-")).resolve()
        except OSError as error:
            hints = ["TMPDIR=/path/you/can/write relight demo"]
            raise RelightError(f"cannot create a temporary directory: {error}", hints=hints) from None
        self.store = self.root / "demo.db"
        self.losing: set[str] = set()
        """runs whose first mail arrives and whose receipt does not: at that moment the demo kills the agent"""
        self._agents: list[Agent] = []

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *error: object) -> None:
        # SIGKILL without asking: nothing of the demo is worth a clean end, and the directory goes next.
        for agent in self._agents:
            agent.kill()
        if not self.keep:
            shutil.rmtree(self.root, ignore_errors=True)

    def start(self, run: str, *, durable: bool = True) -> Agent:
        """Start the agent of a run, in a shop of its own."""
        if not (self.root / run).exists():
            shop.lay_out(self.root / run)
        log = self.root / "agents.log"
        # The same relight on the path, and no setting of other sessions.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
        here = str(Path(relight.__file__).resolve().parent.parent)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "relight.demo.agent", *([str(self.store)] if durable else [])],
                cwd=self.root / run,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,  # Ctrl-C reaches this process only, which ends the others
            )
        agent = Agent(process, log, lambda request: self._answer(run, request))
        self._agents.append(agent)
        return agent

    def _answer(self, run: str, request: dict[str, Any]) -> Any:
        """The reply to one request; None for no reply."""
        op, messages = request["op"], request.pop("messages", [])
        if op == "mail":
            time.sleep(self._transit_seconds)
        with (self.root / "world.jsonl").open("ab") as file:
            turn = {"turn": shop.turns(messages) + 1} if op == "model" else {}
            file.write(json.dumps({"run": run, **request, **turn}).encode() + b"\n")
        if op == "model":
            time.sleep(self.think_seconds)
            message = shop.reply(messages)
            tokens = {"input_tokens": len(json.dumps(messages)) // 4, "output_tokens": len(json.dumps(message)) // 4}
            cost = (INPUT_PRICE * tokens["input_tokens"] + OUTPUT_PRICE * tokens["output_tokens"]) / 1e6
            return {"message": message, "usage": {**tokens, "cost": round(cost, 6)}}
        if op == "mail":
            time.sleep(self._transit_seconds)
            lost = run in self.losing
            self.losing.discard(run)
            return None if lost else "sent"
        return len(self.requests(run, "mail")) if op == "outbox" else None

    def requests(self, run: str, op: str) -> list[dict[str, Any]]:
        """The requests of one kind that a run has made."""
        path = self.root / "world.jsonl"
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        made: list[dict[str, Any]] = [json.loads(line) for line in lines if line.endswith(b"\n")]
        return [one for one in made if (one["run"], one["op"]) == (run, op)]

    def count(self, run: str) -> dict[str, int]:
        """What happened in a run: model calls, mails, edits of cart.py, and its tests."""
        turns = [one["turn"] for one in self.requests(run, "model")]
        passed, tests = shop.run_tests(self.root / run)
        return {
            "model_calls": len(turns),
            "model_calls_repeated": len(turns) - len(set(turns)),
            "mails": len(self.requests(run, "mail")),
            "edits": (self.root / run / "cart.py").read_text(encoding="utf-8").count(shop.FIX),
            "tests_passed": passed,
            "tests": tests,
        }


def wait_until(condition: Callable[[], object], agent: Agent, what: str) -> None:
    """Wait for a condition that an agent brings about; AgentFailed if it ends first."""
    deadline = time.monotonic() + END_SECONDS
    while not condition():
        # Once more after its end: the condition may have become true after the last check.
        if agent.wait(POLL_SECONDS) and not condition():
            raise agent.failed(f"ended before {what}")
        if time.monotonic() > deadline:
            raise agent.failed(f"ran {END_SECONDS:.0f} s without {what}")


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
