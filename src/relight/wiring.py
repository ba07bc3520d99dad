"""The composition root: the one place that knows every part and binds them together."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from relight.engine.context import Context
from relight.engine.heartbeat import Heartbeat
from relight.engine.library import Relight
from relight.errors import StoreUnavailable, UnknownStore
from relight.machine import SystemClock, SystemEntropy, SystemHost
from relight.ports.clock import Clock, Entropy, Host
from relight.ports.runtime import Runtime
from relight.ports.store import Store
from relight.ports.workspace import Workspaces

KNOWN: Final = ("sqlite:///relative.db", "sqlite:////absolute.db", "memory:")


def open(
    url: str | os.PathLike[str] | None = None,
    *,
    clock: Clock | None = None,
    entropy: Entropy | None = None,
    host: Host | None = None,
    create: bool = True,
) -> Relight:
    """Open a store: a URL, a path of an SQLite file, or RELIGHT_STORE, or the user's data directory.

    Without `create` a file that does not exist is read as an empty store and stays away: reading writes nothing.
    """
    clock = clock or SystemClock()
    store = open_store(url, clock, create=create)
    context = Context(
        store=store,
        clock=clock,
        entropy=entropy or SystemEntropy(),
        host=host or SystemHost(),
        heartbeat=Heartbeat(),
        runtime=_process_runtime,
        workspaces=cache(lambda: _tree_workspaces(store)),
        tell=_tell,
        handed=_handed(),
    )
    return Relight(context)


def open_store(url: str | os.PathLike[str] | None, clock: Clock, *, create: bool = True) -> Store:
    """The store behind an address."""
    address = os.fspath(url) if url is not None else os.environ.get("RELIGHT_STORE") or default_path()
    path = sqlite_path(address) if address != "memory:" else None
    if path is None or (not create and not path.exists()):
        from relight.stores.memory import MemoryStore

        return MemoryStore(clock)
    from relight.stores.sqlite.store import SqliteStore

    return SqliteStore(path, clock)


def default_path() -> str:
    """`relight/relight.db` in the user's data directory."""
    base = os.environ.get("XDG_DATA_HOME")
    home = os.environ.get("HOME")
    if not base and not home:
        raise StoreUnavailable(
            "HOME is not set, so there is no data directory to keep sessions in",
            hints=["set RELIGHT_STORE=sqlite:////path/to/relight.db"],
        )
    if base:
        return str(Path(base) / "relight" / "relight.db")
    if sys.platform == "darwin":
        return str(Path(home or "") / "Library" / "Application Support" / "relight" / "relight.db")
    return str(Path(home or "") / ".local" / "share" / "relight" / "relight.db")


def sqlite_path(address: str) -> Path:
    """The file behind an address of a SQLite store. UnknownStore where it is of another kind."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        if ":" in address.split("/", maxsplit=1)[0]:
            raise UnknownStore(address, known=KNOWN)
        return Path(address)
    if scheme != "sqlite" or not rest.startswith("/") or len(rest) < 2:
        raise UnknownStore(address, known=KNOWN)
    return Path(unquote(rest[1:]))


def _tree_workspaces(store: Store) -> Workspaces:
    from relight.workspaces.tree.home import TreeWorkspaces

    return TreeWorkspaces(store)


def _process_runtime() -> Runtime:
    from relight.runtimes.process import ProcessRuntime

    return ProcessRuntime()


def _handed() -> dict[str, str]:
    """What a supervisor handed to the program it started."""
    handed = {"session": os.environ.get("RELIGHT_SESSION"), "owner": os.environ.get("RELIGHT_OWNER")}
    return {key: value for key, value in handed.items() if value}


def _tell(line: str) -> None:
    if os.environ.get("RELIGHT_HINTS") != "0":
        print(f"relight: {line}", file=sys.stderr)
