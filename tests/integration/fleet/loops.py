"""Workers whose loop is real and whose attendants are processes of a simulated machine: a test decides what they do."""

from __future__ import annotations

from typing import Any

from relight.fleet.engines.embedded import EmbeddedEngine
from relight.fleet.worker import WorkerOptions, WorkLoop
from relight.journal.queues.order import checked_position
from relight.library.facade import Relight
from relight.sessions.session import Session
from relight.values.session import Head, Identity
from tests.support.simulation import Simulation

LEASE = 30.0


class SimulatedAttendant:
    """A process that was started for a session. It does what the test says."""

    def __init__(self, world: Simulation, session: str, owner: str | None, retries: int | None) -> None:
        self.world, self.session, self.owner, self.retries = world, session, owner, retries
        self.rl = world.start()
        self.pid = world.machine.last
        self.code: int | None = None
        self.drained = 0
        self.opened: Session | None = None

    def take_over(self) -> Session:
        """It has started: the lease is its own from now on."""
        self.rl._context.inherited.update({"session": self.session, "owner": self.owner or ""})
        self.opened = self.rl.session("any")
        return self.opened

    def say(self, text: str) -> None:
        assert self.opened is not None
        self.opened.append({"role": "user", "content": text})

    def end(self, code: int = 0) -> None:
        """It exits, or dies."""
        self.world.machine.alive.discard(self.pid)
        self.code = code

    def complete(self) -> None:
        if self.opened is None:
            self.take_over()
        assert self.opened is not None
        self.opened.complete("done")
        self.end()

    def poll(self) -> int | None:
        return self.code

    def drain(self) -> None:
        self.drained += 1


class SimulatedAttendants:
    """Starts them, and counts the sweeps."""

    def __init__(self, world: Simulation) -> None:
        self.world = world
        self.all: list[SimulatedAttendant] = []
        self.tidied = 0
        self.closed = False
        self.fail: OSError | None = None

    def start(self, session: str, *, owner: str | None, retries: int | None) -> SimulatedAttendant:
        if self.fail is not None:
            raise self.fail
        made = SimulatedAttendant(self.world, session, owner, retries)
        self.all.append(made)
        return made

    def tidy(self) -> SimulatedAttendant:
        if self.fail is not None:
            raise self.fail
        self.tidied += 1
        self.world.start().admin.sweep_if_due(by="a worker")
        made = SimulatedAttendant(self.world, "", None, None)
        made.end()
        return made

    def close(self) -> None:
        self.closed = True

    @property
    def alive(self) -> list[SimulatedAttendant]:
        return [one for one in self.all if one.code is None]

    def of(self, session: str) -> SimulatedAttendant:
        return next(one for one in reversed(self.all) if one.session == session)


class Ticking(EmbeddedEngine):
    """Waits a whole second at a time, which costs nothing here, and then looks."""

    def wait(self, seconds: float) -> bool:
        self._clock.sleep(1.0)
        return True


class SimulatedWorker:
    """One worker on a process of its own."""

    def __init__(self, world: Simulation, name: str = "w1", **options: Any) -> None:
        self.rl: Relight = world.start()
        self.pid = world.machine.last
        self.world = world
        self.attendants = SimulatedAttendants(world)
        self.lines: list[tuple[str, dict[str, Any]]] = []
        context = self.rl._context
        given: dict[str, Any] = {"queues": ("q",), "concurrency": 2, "lease_seconds": LEASE, **options}
        self.loop = WorkLoop(
            context,
            Ticking(context.store, context.clock),
            self.attendants,
            WorkerOptions(name=name, **given),
            lambda what, fields: self.lines.append((what, fields)),
        )

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            self.loop.step()

    def pass_time(self, seconds: float) -> None:
        """Rounds of its loop over this time."""
        end = self.world.time.instant().us + seconds * 1e6
        while self.world.time.instant().us < end:
            self.loop.step()

    def die(self) -> None:
        """The whole machine of this worker."""
        self.world.machine.alive.discard(self.pid)
        for one in self.attendants.alive:
            one.end(-9)


def existing(world: Simulation, rl: Relight, *, queue: str = "q", **asked: Any) -> str:
    """A session with a command that stands in line."""
    wake_us = asked.pop("wake_us", None)
    now_us = world.time.now_us()
    location = checked_position(queue, priority=asked.pop("priority", 0), wants=asked.pop("wants", ()), since_us=now_us)
    identity = Identity(
        id=world.chance.session_id(),
        created_us=now_us,
        command=["agent"],
        directory="/",
        queue_position=location,
        **asked,
    )
    rl.store.create(identity, Head(session=identity.id, queue_position=location, wake_us=wake_us))
    world.time.advance(0.001)
    return identity.id
