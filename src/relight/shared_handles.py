"""`relight.session`: a session of the default store, or of another, without opening a handle first.

One handle is kept for each store of a process: opened by the first call that needs it, used by all threads, closed when
the process ends. A forked child opens its own.
"""

from __future__ import annotations

import atexit
import os
from threading import Lock
from typing import TYPE_CHECKING, Final, Unpack

from relight import configuration
from relight.sessions.entry.options import SessionOptions
from relight.system.fork_handlers import reset_after_fork
from relight.wiring import default_path, sqlite_path
from relight.wiring import open as open_store

if TYPE_CHECKING:
    from relight.library.facade import Relight
    from relight.sessions.session import Session


class SharedHandles:
    """The open stores of this process by address."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: dict[str, Relight] = {}
        self._inherited: list[dict[str, Relight]] = []
        reset_after_fork(self)
        atexit.register(self.close)

    def after_fork(self) -> None:
        """A child has no handle yet. Those of its parent are kept unused: collected, they would close what is not
        theirs."""
        self._lock = Lock()
        self._inherited.append(self._open)
        self._open = {}

    def get(self, store: str | os.PathLike[str] | None) -> Relight:
        """The handle for an address, a path, RELIGHT_STORE or the default; opened if there is none."""
        configuration.apply(os.environ)
        address = os.fsdecode(store) if store is not None else os.environ.get("RELIGHT_STORE") or default_path()
        key = address
        if address != "memory:" and address.partition("://")[0] in (address, "sqlite"):
            key = str(sqlite_path(address).absolute())  # a program may change its directory
        with self._lock:
            if key not in self._open:
                self._open[key] = open_store(address)
            return self._open[key]

    def close(self) -> None:
        """Close all of them; the next call opens again."""
        with self._lock:
            closing, self._open = self._open, {}
        for rl in closing.values():
            rl.close()


HANDLES: Final = SharedHandles()


def session(
    name: str,
    *,
    store: str | os.PathLike[str] | None = None,
    wait: float | None = None,
    resume: bool = True,
    parent: Session | str | None = None,
    **options: Unpack[SessionOptions],
) -> Session:
    """Open a session by name: new, or exactly where it stopped. `store`: an address or the path of an SQLite file;
    without it RELIGHT_STORE, or the store in the user's data directory. All else is as in `Relight.session`."""
    return HANDLES.get(store).session(name, wait=wait, resume=resume, parent=parent, **options)
