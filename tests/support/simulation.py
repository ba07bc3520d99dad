"""A world of simulated processes around one real store: starting another process kills the one before it.

Everything is the real library; only the machine is ours: who is alive, what time it is, which ids are drawn. So a
crash is leaving a handle where it is, and a seed replays a failure. The heartbeat is switched off: a dead process has
none, and a live one renews its lease with every commit.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

import relight
from relight.library.facade import Relight
from relight.ports.clock import Clock
from relight.ports.store import Store
from relight.sessions.heartbeat import Heartbeat
from relight.stores.memory import MemoryStore
from relight.testing.clock import ManualClock, SeededEntropy
from relight.values.lease import Owner


class Machine:
    """Processes by number. One that is not in `alive` was seen to be dead."""

    def __init__(self) -> None:
        self.alive: set[int] = set()
        self.last = 0
        self.boots = 0
        """how often the machine was started again"""

    def boot(self) -> int:
        """A new process; its number."""
        self.last += 1
        self.alive.add(self.last)
        return self.last


class Process:
    """One process's view of the machine: the host port."""

    def __init__(self, machine: Machine, pid: int) -> None:
        self.machine = machine
        self.pid = pid

    def owner(self, owner_id: str) -> Owner:
        return Owner(id=owner_id, host="test", boot=self._boot(), pid_namespace="test", pid=self.pid, pid_start=1)

    def _boot(self) -> str:
        return f"test {self.machine.boots}"

    def is_gone(self, owner: Owner) -> bool | None:
        return owner.boot != self._boot() or owner.pid not in self.machine.alive


class Simulation:
    """One store, and processes that open it."""

    def __init__(self, path: Path | None = None, *, seed: int = 0, time: ManualClock | None = None) -> None:
        self.time = time or ManualClock()
        self.chance = SeededEntropy(seed)
        self.machine = Machine()
        self.path = path
        self.reported: list[str] = []
        self._still = Heartbeat()
        self._still.stop()
        self._opened: list[Store] = []
        self._memory = MemoryStore(self.time) if path is None else None

    def start(self, store: Store | None = None) -> Relight:
        """A new process, beside those that live. `store` wraps the real one."""
        host = Process(self.machine, self.machine.boot())
        bound = relight.open("memory:", clock=self.time, entropy=self.chance, host=host)._context
        ours = {
            "store": store or self.open_store(),
            "heartbeat": self._still,
            "notify": self.reported.append,
            "inherited": {},
        }
        return Relight(msgspec.structs.replace(bound, **ours))

    def crash(self) -> None:
        """Every process dies, wherever it is."""
        self.machine.alive.clear()

    def reboot(self) -> None:
        """The machine starts again: every process is dead, and its numbers are given again."""
        self.crash()
        self.machine.boots, self.machine.last = self.machine.boots + 1, 0

    def restart(self) -> Relight:
        """All die, and a new one starts."""
        self.crash()
        return self.start()

    def open_store(self) -> Store:
        """The store as a process opens it."""
        if self._memory is not None:
            return self._memory
        return open_sqlite(self.path, self.time, self._opened)

    def close(self) -> None:
        """Give back the files of all processes, dead ones too."""
        for store in self._opened:
            store.close()


def open_sqlite(path: Path | None, clock: Clock, opened: list[Store]) -> Store:
    """A connection of its own to the file, noted in `opened`."""
    from relight.stores.sqlite.store import SqliteStore

    assert path is not None
    store = SqliteStore(path, clock)
    opened.append(store)
    return store
