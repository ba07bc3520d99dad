"""Conformance kit of the runtime port: checks that every runtime has to pass.

    class Mine(RuntimeChecks):
        has_places = True
        def make(self): return MyRuntime(...)

    def test_mine(tmp_path):
        for check in Mine(tmp_path).checks():
            check()

The checks start a small program of the kit, which reports its arguments, environment and directory and then follows
orders. A runtime that starts no processes overrides `seen` and `tell`. Checks work below the given directory, need no
network, and raise AssertionError if the contract is violated.
"""

from __future__ import annotations

import os
import secrets
import signal
import stat
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from relight.errors import AgentFailed, Refused, UsageError
from relight.ports.runtime import SESSION_VARIABLE, Child, Exit, Runtime

WAIT_SECONDS: Final = 20.0
INHERITED: Final = "KIT_INHERITED"
"""an environment variable that a check sets in this process"""
HOSTILE_WORDS: Final = (
    "; touch marker #",
    "$(touch marker)",
    "`touch marker`",
    "#(touch marker)",
    "#{pane_pid} %H:%M",
    "two words",
    "",
    "'single' \"double\" \\ back",
    "line\nbreak\ttab",
    "-t",
    ";",
    "ends with;",
    "ünïcödé ✓",
    "x" * 60_000,
)
"""arguments that a shell or a terminal multiplexer would interpret"""

_PROGRAM: Final = """
import json, os, signal, subprocess, sys, time
report, given = sys.argv[1], {}
given = {"words": sys.argv[2:], "environment": dict(os.environ), "directory": os.getcwd()}
with open(report + ".new", "w") as file:
    json.dump(given, file)
os.rename(report + ".new", report)  # a reader never sees half a report
nap = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(300)"]
while True:
    try:
        with open(report + ".order") as file:
            verb, _, rest = file.read().partition(" ")
        os.remove(report + ".order")
    except OSError:
        time.sleep(0.005)
        continue
    if verb == "exit":
        sys.exit(int(rest))
    if verb == "die":
        signal.signal(int(rest), signal.SIG_DFL) if int(rest) != 9 else None
        os.kill(os.getpid(), int(rest))
    if verb == "say":
        print(rest, flush=True)
    if verb == "helper":
        subprocess.Popen(nap, start_new_session=rest == "apart")
    with open(report + ".done", "w") as file:
        file.write(verb)
"""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments, environment and directory that the program reported."""

    words: list[str]
    environment: dict[str, str]
    directory: str


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """A running program of the kit."""

    child: Child
    session: str
    report: Path


class RuntimeChecks(ABC):
    """Subclass it with `make`, then run `checks()`."""

    has_places: bool = False
    """whether a handle outlasts its process"""
    captures: bool = True
    """whether `capture` returns output lines and `log` writes the file"""
    orphans_survive: bool = True
    """whether a process can outlive the agent that started it"""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.workspace = directory / "a workspace; touch marker #"
        self.workspace.mkdir()
        self._runtime: Runtime | None = None
        self._used: list[Started] = []

    @abstractmethod
    def make(self) -> Runtime:
        """A runtime; one is used for all checks."""

    @property
    def runtime(self) -> Runtime:
        if self._runtime is None:
            self._runtime = self.make()
        return self._runtime

    def checks(self) -> Iterator[Callable[[], None]]:
        """All checks, as functions without arguments."""
        for name in sorted(dir(self)):
            if name.startswith("check_"):
                yield self._cleaning(getattr(self, name))

    def _cleaning(self, check: Callable[[], None]) -> Callable[[], None]:
        def checked() -> None:
            try:
                check()
            finally:
                while self._used:
                    self._end(self._used.pop())

        checked.__name__ = check.__name__
        return checked

    def _end(self, started: Started) -> None:
        started.child.signal(signal.SIGKILL)
        self.ended(started)
        self.runtime.destroy(started.child.handle)
        self.runtime.end(self.runtime.orphans(started.session), seconds=2)

    # -- for a runtime that starts no processes ----------------------------------------------------------------

    def seen(self, started: Started) -> Seen:
        """What the program reported at its start."""
        until(
            lambda: started.report.exists() or started.child.poll() is not None, "the program tells what it was given"
        )
        assert started.report.exists(), f"it ended at once: {started.child.poll()}, {started.child.last_lines()}"
        return msgspec.json.decode(started.report.read_bytes(), type=Seen)

    def tell(self, started: Started, order: str) -> None:
        """Send an order and wait until it is done: `exit N`, `die N`, `say TEXT`, `helper near`, `helper apart`."""
        self.seen(started)
        done = Path(f"{started.report}.done")
        done.unlink(missing_ok=True)
        # Renamed into place: the program polls for the order and must not read half of it.
        new = Path(f"{started.report}.next")
        new.write_text(order, encoding="utf-8")
        new.rename(f"{started.report}.order")
        if not order.startswith(("exit", "die")):
            until(done.exists, f"the program does: {order}")

    # -- starting ----------------------------------------------------------------------------------------------

    def start(
        self,
        *words: str,
        handle: str = "",
        session: str = "",
        environment: dict[str, str] | None = None,
        log: Path | None = None,
        capture: bool = False,
    ) -> Started:
        """Start the program of the kit."""
        session = session or secrets.token_hex(16)
        report = self.workspace / f"report-{secrets.token_hex(8)}"
        child = self.runtime.spawn(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, str(report), *words],
            directory=str(self.workspace),
            environment={SESSION_VARIABLE: session, **(environment or {})},
            handle=handle,
            log=log,
            capture=capture,
        )
        started = Started(child=child, session=session, report=report)
        self._used.append(started)
        return started

    def ended(self, started: Started) -> Exit:
        """Wait for its end, and return how it ended."""
        until(lambda: started.child.poll() is not None, "its end is reported")
        exit = started.child.poll()
        assert exit is not None
        started.child.close()
        return exit

    # -- checks ------------------------------------------------------------------------------------------------

    def check_words_arrive_exactly(self) -> None:
        started = self.start(*HOSTILE_WORDS)
        assert self.seen(started).words == list(HOSTILE_WORDS), "the words are those that were given"
        self.tell(started, "exit 0")
        self.ended(started)
        assert not list(self.directory.rglob("marker")), "no shell has read the words"

    def check_variables_are_ours_and_the_given(self) -> None:
        odd = {"KIT_ODD": "a=b\nc; touch marker #", "KIT_EMPTY": "", "KIT_FORMAT": "#{pid} #(touch marker)"}
        os.environ[INHERITED] = "from the supervisor"
        try:
            environment = self.seen(self.start(environment=odd)).environment
        finally:
            os.environ.pop(INHERITED)
        assert {name: environment.get(name) for name in odd} == odd
        assert dict(environment)[INHERITED] == "from the supervisor"
        assert not list(self.directory.rglob("marker"))

    def check_it_runs_in_the_directory(self) -> None:
        assert self.seen(self.start()).directory == os.path.realpath(self.workspace)

    def check_exit_codes_are_told_for_ever(self) -> None:
        for code in (0, 1, 3, 77):
            started = self.start()
            assert started.child.poll() is None, "it lives"
            self.tell(started, f"exit {code}")
            assert self.ended(started) == Exit(code=code)
            self.runtime.destroy(started.child.handle)
            # A supervisor may ask again after it has destroyed the handle, and must get the same answer.
            assert started.child.poll() == Exit(code=code), "and again, after its handle was destroyed"

    def check_deadly_signals_are_told_for_ever(self) -> None:
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
            started = self.start()
            self.tell(started, f"die {int(number)}")
            assert self.ended(started) == Exit(signal=number)
            self.runtime.destroy(started.child.handle)
            assert started.child.poll() == Exit(signal=number)

    def check_signals_reach_the_whole_group(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            started = self.start()
            self.tell(started, "helper near")
            started.child.signal(number)
            assert self.ended(started) == Exit(signal=number)
            until(lambda: not self.runtime.orphans(started.session), "its helper went with it")  # noqa: B023
            started.child.signal(number)  # nothing is left, and that is no error

    def check_orphans_are_found_and_ended(self) -> None:
        started, other = self.start(), self.start()
        self.seen(other)
        self.tell(started, "helper apart")
        self.tell(started, "die 9")
        self.ended(started)
        if self.orphans_survive:
            until(lambda: bool(self.runtime.orphans(started.session)), "the orphan is found")
        self.runtime.end(self.runtime.orphans(started.session), seconds=2)
        until(lambda: not self.runtime.orphans(started.session), "no orphan is left")
        assert other.child.poll() is None, "another session's process still runs"
        assert not self.runtime.orphans(secrets.token_hex(16)), "a session that never ran has none"

    def check_what_cannot_start_is_refused(self) -> None:
        missing = str(self.workspace / "no such program")
        refused(UsageError, lambda: self.runtime.check([missing], str(self.workspace)))
        refused(UsageError, lambda: self.runtime.check([], str(self.workspace)))
        refused(UsageError, lambda: self.runtime.check([sys.executable], str(self.directory / "nowhere")))
        self.runtime.check([sys.executable], str(self.workspace))

    def check_the_system_refusing_is_a_failure_of_the_agent(self) -> None:
        session = {SESSION_VARIABLE: secrets.token_hex(16)}
        missing = [str(self.workspace / "no such program")]
        where = str(self.workspace)
        refused(AgentFailed, lambda: self.runtime.spawn(missing, directory=where, environment=session, handle="kit-no"))
        self.runtime.destroy("kit-no")

    def check_a_handle_that_is_not_there_is_absent(self) -> None:
        for handle in ("", "no-such-handle", "x" * 500, "=a:b.c", "#(touch marker)", "-t", "a\nb", "; touch marker #"):
            assert self.runtime.probe(handle).liveness == "absent"
            assert self.runtime.attach(handle) is None
            assert self.runtime.reattach(handle) is None
            self.runtime.destroy(handle)
            refused(Refused, lambda: self.runtime.deliver(handle, "; touch marker #"))  # noqa: B023
        assert not list(self.directory.rglob("marker"))

    def check_a_handle_names_a_place_over_restarts(self) -> None:
        started = self.start(handle="kit-handle")
        if not self.has_places:
            assert started.child.handle == ""
            return
        first = started.child.pid
        assert started.child.handle == "kit-handle"
        assert (self.runtime.probe("kit-handle").liveness, self.runtime.probe("kit-handle").pid) == ("alive", first)
        joining = self.runtime.attach("kit-handle")
        assert joining, "a person can join it"
        refused(Refused, lambda: self.start(handle="kit-handle"))
        self.tell(started, "die 9")
        self.ended(started)
        seen = self.runtime.probe("kit-handle")
        assert (seen.liveness, seen.exit) == ("dead", Exit(signal=9))
        again = self.start(handle="kit-handle")
        assert again.child.handle == "kit-handle" and again.child.pid != first
        assert self.runtime.probe("kit-handle").pid == again.child.pid
        assert self.runtime.attach("kit-handle") == joining
        assert started.child.poll() == Exit(signal=9), "the first one's end is still told"

    def check_a_handle_is_never_a_prefix(self) -> None:
        if not self.has_places:
            return
        started = self.start(handle="kit-long-name")
        assert self.runtime.probe("kit-long").liveness == "absent"
        self.runtime.destroy("kit-long")
        refused(Refused, lambda: self.runtime.deliver("kit-long", "x"))
        assert started.child.poll() is None

    def check_destroy_ends_it_and_can_be_repeated(self) -> None:
        if not self.has_places:
            return
        started = self.start(handle="kit-gone")
        self.tell(started, "helper near")
        for _ in range(3):
            self.runtime.destroy("kit-gone")
        assert self.runtime.probe("kit-gone").liveness == "absent"
        self.ended(started)
        until(lambda: not self.runtime.orphans(started.session), "nothing of it is left")

    def check_a_living_process_is_adopted(self) -> None:
        if not self.has_places:
            return
        started = self.start(handle="kit-adopted")
        self.seen(started)
        adopted = self.runtime.reattach("kit-adopted")
        assert adopted is not None and adopted.pid == started.child.pid and adopted.poll() is None
        self.tell(started, "exit 5")
        until(lambda: adopted.poll() is not None, "the end of an adopted one is reported")
        assert adopted.poll() == Exit(code=5)
        assert self.runtime.reattach("kit-adopted") is None, "the dead are not adopted"

    def check_nothing_is_typed_to_the_dead(self) -> None:
        started = self.start(handle="kit-dead")
        self.tell(started, "die 9")
        self.ended(started)
        refused(Refused, lambda: self.runtime.deliver(started.child.handle or "kit-dead", "; touch marker #"))
        assert not list(self.directory.rglob("marker"))

    def check_output_is_kept_and_told(self) -> None:
        log = self.directory / "kept #(touch marker) %H.log"
        started = self.start(log=log, capture=True)
        self.tell(started, "say first")
        self.tell(started, "say second, longer " + "y" * 100)
        self.tell(started, "exit 0")
        self.ended(started)
        assert stat.S_IMODE(log.stat().st_mode) == 0o600
        if not self.captures:
            return
        lines = started.child.output()
        assert lines[0] == "first" and lines[1].startswith("second"), lines
        assert started.child.output() == [], "each line once"
        assert b"first" in log.read_bytes() and b"second" in log.read_bytes()


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition; AssertionError if it is not true in time."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {WAIT_SECONDS:.0f} s: {what}"
        time.sleep(0.005)


def refused(kind: type[Exception], act: Callable[[], object]) -> None:
    """Require that a call raises this exception."""
    try:
        act()
    except kind:
        return
    raise AssertionError(f"no {kind.__name__} was raised")
