"""A fleet of real workers to kill, stop and partition; and what must be true of their sessions afterwards."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import relight
from relight.errors import RelightError
from relight.processes.attendants import FORK_SERVER
from relight.values.info import SessionInfo
from tests.conftest import ROOT
from tests.support.processes import children, environment, marked, words

COUNTED = str(ROOT / "tests" / "support" / "programs" / "counted.py")
BOUND_SECONDS = 120.0
UNKNOWN = "outcome unknown"
FLEET = "FLEET_UNDER_TEST"


def wait_until(what: str, condition: Callable[[], Any], *, bound_seconds: float = BOUND_SECONDS) -> Any:
    """The first true value of `condition`; a failure that says what was waited for."""
    end = time.monotonic() + bound_seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"waited {bound_seconds} s for {what}"
        time.sleep(0.02)
    return value


class RunningWorker:
    """One worker process and everything that it started."""

    def __init__(self, fleet: Fleet, name: str, words: tuple[str, ...]) -> None:
        self.name, self.log, self._fleet = name, fleet.directory / f"{name}.log", fleet.environment[FLEET]
        python = [*fleet.within, sys.executable, "-P", "-m"]
        command = [*python, "relight.cli", "worker", "--name", name, "--no-retention", *words]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=fleet.environment, start_new_session=True
            )

    def tree(self) -> list[int]:
        """The worker and all processes that were started for it, told by their environment: another fleet beside this
        one has workers of the same names."""
        ours = (pid for pid in marked(FLEET, self._fleet) if environment(pid).get("RELIGHT_WORKER") == self.name)
        return [self.process.pid, *ours]

    def programs(self) -> list[int]:
        """The processes that run sessions: neither the worker, nor whoever attends to them, nor who forks those."""
        return [pid for pid in self.tree()[1:] if "RELIGHT_SESSION" in environment(pid)]

    def fork_server(self) -> int:
        """The process that forks those who attend."""
        return next(pid for pid in children(self.process.pid) if FORK_SERVER in " ".join(words(pid)))

    def signal_all(self, number: int) -> None:
        """As if its machine died, slept or woke."""
        for pid in self.tree():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def kill(self) -> None:
        """Power off: again until nothing of it is left, because it may have been starting something."""
        for _ in range(3):
            self.signal_all(signal.SIGKILL)
        self.process.wait(60)

    def close(self) -> None:
        if self.process.poll() is None:
            self.signal_all(signal.SIGCONT)
            self.kill()
        for pid in self.tree()[1:]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


class Fleet:
    """Workers on one store, and sessions for them."""

    def __init__(self, directory: Path, url: str, **settings: str) -> None:
        self.directory, self.url = directory, url
        base = {name: value for name, value in os.environ.items() if not name.startswith("RELIGHT_")}
        ours = {"RELIGHT_STORE": url, "RELIGHT_HINTS": "0", FLEET: secrets.token_hex(8)}
        self.environment: Mapping[str, str] = {**base, **ours, **settings}
        self.effects = directory / "effects"
        self.effects.touch()
        self.workers: dict[str, RunningWorker] = {}
        self.within: tuple[str, ...] = ()
        """a command that starts another: where workers are started from now on"""
        self._made = self._submitted = 0
        self.rl = relight.open(url)

    def start(self, *words: str, name: str | None = None) -> RunningWorker:
        self._made += 1
        worker = RunningWorker(self, name or f"w{self._made}", words)
        self.workers[worker.name] = worker
        return worker

    def submit(self, number: int, *, turns: int = 10, seconds: float = 0.0, **asked: Any) -> list[str]:
        """So many sessions of the counting program; their ids."""
        command = [sys.executable, "-P", COUNTED, str(self.effects), str(turns), str(seconds)]
        asked = {"queue": "default", "directory": str(self.directory), **asked}
        self._submitted += 1
        return [self.rl.queues.submit(command, name=f"job{self._submitted}-{n}", **asked).id for n in range(number)]

    def info(self, session: str) -> SessionInfo | None:
        """As it is; None while the store is away."""
        try:
            return self.rl.sessions.get(session)
        except RelightError:
            return None

    def count(self) -> Counter[str]:
        """Sessions by stored status."""
        try:
            return Counter({str(status): number for status, number in self.rl.sessions.counts().items()})
        except RelightError:
            return Counter()

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()
        self.rl.close()

    def bad(self) -> str:
        """Sessions that ended otherwise than they should, and why."""
        ended = [one for one in self.rl.sessions.list() if one.status in ("failed", "terminated", "halted")]
        return "".join(f"{one.id} {one.status} @{one.seq}: {one.reason} {one.failure}\n" for one in ended)

    def logs(self) -> str:
        """What the workers said, for a failure."""
        return "\n".join(f"--- {one.name}\n{one.log.read_text()[-3000:]}" for one in self.workers.values())


class Judged:
    """What became of the sessions, counted."""

    def __init__(self, fleet: Fleet, sessions: list[str], *, turns: int) -> None:
        self.twice = self.missing = self.reported = self.untold = 0
        effects = Counter(tuple(line.split()[:2]) for line in fleet.effects.read_text().splitlines())
        self.unfinished = [one for one in sessions if fleet.rl.sessions.get(one).status != "completed"]
        self.wrong: list[str] = []
        self.attempts = 0
        for session in sessions:
            self.attempts += fleet.rl.sessions.get(session).attempt
            messages = fleet.rl.history.load(session).messages
            said = [one["content"] for one in messages if one["role"] == "assistant"]
            if said != [f"turn {n}" for n in range(turns)] + ["done"]:
                self.wrong.append(f"{session}: {said}")
            results = {one["tool_call_id"]: one["content"] for one in messages if one["role"] == "tool"}
            if len(results) != turns or sum(one["role"] == "tool" for one in messages) != turns:
                self.wrong.append(f"{session}: {len(results)} results")
            for call, content in results.items():
                done, unknown = effects[session, call], UNKNOWN in str(content)
                self.twice += done > 1
                self.reported += unknown
                self.untold += done != 1 and not unknown

    def check(self, fleet: Fleet) -> None:
        """Every session completes, every step once, every effect at most once, every doubt told."""
        assert not self.unfinished, f"{len(self.unfinished)} unfinished\n{fleet.logs()}"
        assert not self.wrong, self.wrong[:3]
        assert (self.twice, self.untold) == (0, 0)
        assert fleet.rl.history.verify().ok
