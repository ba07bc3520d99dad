"""The composition root: the one place that knows every part and binds them together."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from relight.engine.context import Context
from relight.engine.heartbeat import Heartbeat
from relight.engine.library import Relight
from relight.errors import MissingExtra, StoreUnavailable, UnknownStore, UsageError
from relight.machine import SystemClock, SystemEntropy, SystemHost, write_private
from relight.ports.agent import AgentAdapter
from relight.ports.clock import Clock, Entropy, Host
from relight.ports.hooks import Answer, Listening
from relight.ports.runtime import Runtime
from relight.ports.store import Store
from relight.ports.workspace import Workspaces

if TYPE_CHECKING:
    from relight.journal.redaction import Redactor

KNOWN: Final = (
    "sqlite:///relative.db",
    "sqlite:////absolute.db",
    "postgresql://host/database",
    "redis://host:6379/0",
    "memory:",
)
_SESSION: Final = re.compile(r"[0-9a-f]{32}")
_POSTGRES: Final = ("postgresql", "postgres")
_REDIS: Final = ("redis", "rediss", "unix")


def open(
    url: str | os.PathLike[str] | Store | None = None,
    *,
    clock: Clock | None = None,
    entropy: Entropy | None = None,
    host: Host | None = None,
    create: bool = True,
    ready: bool = True,
) -> Relight:
    """Open a store: a URL, a path of an SQLite file, or RELIGHT_STORE, or the user's data directory.

    Or a store of one's own, which passes the kit of `relight.testing`; closing what comes back closes it too.

    Without `create` a file that does not exist is read as an empty store and stays away: reading writes nothing.
    Without `ready` the parts that load and save are imported when they are first used, for who may only want a list.
    """
    if ready:
        _import_the_rest()
    return Relight(_context(url, clock=clock, entropy=entropy, host=host, create=create))


def _import_the_rest() -> None:
    """A program's first load or save does not wait for imports."""
    for name in ("zstandard", "relight.journal.fold", "relight.engine.session"):
        import_module(name)


@contextmanager
def open_context(url: str | None = None) -> Iterator[Context]:
    """The ports alone, for a use case that is no verb of the library."""
    context = _context(url, clock=None, entropy=None, host=None, create=False)
    try:
        yield context
    finally:
        context.store.close()


def _context(
    url: str | os.PathLike[str] | Store | None,
    *,
    clock: Clock | None,
    entropy: Entropy | None,
    host: Host | None,
    create: bool,
) -> Context:
    clock = clock or SystemClock()
    store = open_store(url, clock, create=create)
    return Context(
        store=store,
        clock=clock,
        entropy=entropy or SystemEntropy(),
        host=host or SystemHost(),
        heartbeat=Heartbeat(),
        runtimes=lambda name, session, network: _runtime(store, name, session, network),
        agents=_Agents(),
        hooks=_Hooks(),
        redactor=_redactor,
        run_directory=lambda session: _run_directory(store, session),
        run_directories=lambda: _run_directories(store),
        remove_run_directory=lambda session: _remove_run_directory(store, session),
        write_private=write_private,
        environment=os.environ,
        workspaces=cache(lambda: _tree_workspaces(store)),
        tell=_tell,
        handed=_handed(),
    )


def open_store(url: str | os.PathLike[str] | Store | None, clock: Clock, *, create: bool = True) -> Store:
    """The store behind an address, or the one that was given."""
    if url is not None and not isinstance(url, str | os.PathLike):
        if isinstance(url, type) or not callable(getattr(url, "commit", None)):
            raise UsageError(f"a store is an address, a path or a Store, not {type(url).__name__}")
        return url
    address = os.fsdecode(url) if url is not None else os.environ.get("RELIGHT_STORE") or default_path()
    if not address or "\0" in address:
        raise UnknownStore(address, known=KNOWN)
    if address.partition("://")[0] in _POSTGRES:
        return _postgres_store(address, clock, create=create)
    if address.partition("://")[0] in _REDIS:
        return _redis_store(address, clock, create=create)
    path = sqlite_path(address) if address != "memory:" else None
    if path is None or (not create and not path.exists()):
        from relight.stores.memory import MemoryStore

        return MemoryStore(clock)
    from relight.stores.sqlite.store import SqliteStore

    return SqliteStore(path, clock)


def _postgres_store(address: str, clock: Clock, *, create: bool) -> Store:
    try:
        from relight.stores.postgres.store import PostgresStore
    except ImportError as error:
        if error.name not in ("psycopg", None):  # none: the driver is there, and what it stands on is not
            raise
        raise MissingExtra("postgres", needed_for="a store on PostgreSQL") from None
    if create:
        return PostgresStore(address, clock, local=_data_directory(), blobs=_blobs())
    found = PostgresStore.found(address, clock, local=_data_directory(), blobs=_blobs())
    if found is not None:
        return found
    from relight.stores.memory import MemoryStore

    return MemoryStore(clock)


def _redis_store(address: str, clock: Clock, *, create: bool) -> Store:
    try:
        from relight.stores.redis.store import RedisStore
    except ModuleNotFoundError as error:
        if error.name != "redis":
            raise
        raise MissingExtra("redis", needed_for="a store on Redis") from None
    tell = _tell if create else _keep_quiet
    return RedisStore(address, clock, local=_data_directory(), blobs=_blobs(), tell=tell)


def _keep_quiet(line: str) -> None:
    """Whoever only reads need not be told what writing would risk."""


def _data_directory() -> Path:
    return Path(default_path()).parent


def _blobs() -> Path | None:
    """Where the content of workspaces lies on this machine, for stores that are somewhere else."""
    named = os.environ.get("RELIGHT_BLOBS")
    return Path(named).absolute() if named else None


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
    from relight.workspaces.tree.policy import asked_policy

    return TreeWorkspaces(store, asked_policy(os.environ))


def _runtime(store: Store, name: str, session: str, network: bool) -> Runtime:
    """A kind of place; `session` where it has one for each."""
    if name == "tmux":
        from relight.runtimes.tmux.runtime import TmuxRuntime

        return TmuxRuntime(_run_root(store) / "tmux")
    from relight.runtimes.process.runtime import ProcessRuntime

    plain = ProcessRuntime(clean=lambda text: _redactor().text(text))
    if name == "process":
        return plain
    if name == "sandbox":
        from relight.runtimes.sandbox import SandboxRuntime

        homes = _run_root(store) / "homes"
        writable = [_run_directory(store, session)] if session else []
        return SandboxRuntime(plain, homes, writable=writable, network=network, session=session)
    raise UsageError(f"no runtime called {name!a}", hints=["there are: process, tmux, sandbox"])


def _run_directory(store: Store, session: str) -> Path:
    """Beside the database: hooks, settings, output and homes of running sessions. Only the user's own."""
    directory = _run_root(store) / session
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def _run_directories(store: Store) -> list[str]:
    """Sessions that have, or had, something beside the store."""
    root = _known_run_root(store)
    if root is None or not root.is_dir():
        return []
    return sorted(path.name for path in root.iterdir() if _SESSION.fullmatch(path.name))


def _remove_run_directory(store: Store, session: str) -> None:
    from shutil import rmtree

    root = _known_run_root(store)
    if root is not None and _SESSION.fullmatch(session):
        for place in (root / session, root / "homes" / session):
            rmtree(place, ignore_errors=True)


def _known_run_root(store: Store) -> Path | None:
    """None for a store of one's own, and for memory: nothing is supervised there."""
    try:
        return _run_root(store)
    except UnknownStore:
        return None


def _run_root(store: Store) -> Path:
    place = getattr(store, "place", None)
    if place is None:
        return Path(f"{sqlite_path(store.url)}.run").absolute()
    return _data_directory() / f"server-{sha256(place.encode()).hexdigest()[:8]}.run"


@cache
def _redactor() -> Redactor:
    from relight.journal.redaction import Redactor, secret_names

    return Redactor({name: os.environ[name] for name in secret_names(os.environ)})


class _Agents:
    """Adapters by name and by command; imported when asked for."""

    def named(self, name: str) -> AgentAdapter:
        """As the session records it."""
        return next((one for one in self.known() if one.name == name), self._any())

    def of(self, command: Sequence[str]) -> AgentAdapter:
        """As the user typed it."""
        return next((one for one in self.known() if one.recognises(command)), self._any())

    def known(self) -> tuple[AgentAdapter, ...]:
        """Coding agents."""
        from relight.agents.claude_code.adapter import ClaudeCode
        from relight.agents.codex.adapter import Codex

        return ClaudeCode(), Codex()

    def _any(self) -> AgentAdapter:
        from relight.agents.command import Command

        return Command()


class _Hooks:
    """The socket, opened by those who supervise."""

    @property
    def command(self) -> tuple[str, ...]:
        from relight.hooks.channel import SocketHooks

        return SocketHooks.command

    def listen(self, directory: Path, answer: Answer) -> Listening:
        from relight.hooks.channel import SocketHooks

        return SocketHooks().listen(directory, answer)


def _handed() -> dict[str, str]:
    """What a supervisor handed to the program it started."""
    if os.environ.get("RELIGHT_AGENT"):
        return {}  # a program that a coding agent runs is not the session itself
    handed = {"session": os.environ.get("RELIGHT_SESSION"), "owner": os.environ.get("RELIGHT_OWNER")}
    return {key: value for key, value in handed.items() if value}


def _tell(line: str) -> None:
    if os.environ.get("RELIGHT_HINTS") != "0":
        print(f"relight: {line}", file=sys.stderr)
