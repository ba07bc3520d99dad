"""The composition root: the only module that imports every implementation and binds them to the ports."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote

from relight import configuration
from relight.agents.registry import BUILT_IN, COMMAND
from relight.errors import MissingExtra, StoreUnavailable, UnknownStore, UsageError
from relight.library.facade import Relight
from relight.ports.clock import Clock, Entropy, Host
from relight.ports.runtime import COMMAND_VARIABLE, SECRETS_VARIABLE, Runtime, RuntimeFactory, RuntimeRequest
from relight.ports.store import Store
from relight.processes import inheritance
from relight.sessions.context import Context
from relight.sessions.heartbeat import Heartbeat
from relight.sessions.redacting_store import recorded_store
from relight.system import entry_points
from relight.system.environment_secrets import redactor
from relight.system.machine import SystemClock, SystemEntropy, SystemHost, write_private
from relight.telemetry.notices import notice
from relight.values.ref import is_session_id
from relight.wiring_agents import Agents, Hooks

if TYPE_CHECKING:
    from relight.fleet.worker import Log, WorkerOptions, WorkLoop
    from relight.journal.prices import Price
    from relight.ports.blobs import Blobs, BlobsFactory
    from relight.ports.schema import SchemaStatus
    from relight.ports.wakeup import WorkEngine
    from relight.ports.workspace import Workspaces, WorkspacesFactory
    from relight.stores.postgres.store import PostgresStore

KNOWN: Final = (
    "sqlite:///relative.db",
    "sqlite:////absolute.db",
    "postgresql://host/database",
    "redis://host:6379/0",
    "memory:",
)
RUNTIMES: Final = ("process", "tmux", "sandbox")
TREE: Final = "tree"
"""the built-in workspaces"""
_MAX_NEIGHBOURS: Final = 5
_POSTGRES: Final = ("postgresql", "postgres")
BLOB_SCHEMES: Final = (*_POSTGRES, "file", "s3")
"""schemes of addresses in RELIGHT_BLOBS; without one it is a directory"""
_REDIS: Final = ("redis", "rediss", "unix")
_OURS: Final = ("RELIGHT_STORE", "RELIGHT_OWNER", "RELIGHT_TOKEN", "RELIGHT_BLOBS")
"""variables that give access to the store; removed from a sandbox's environment"""
_OF_POSTGRES: Final = ("PGPASSWORD", "PGPASSFILE", "PGSERVICE", "PGSERVICEFILE")


def open(
    url: str | os.PathLike[str] | Store | None = None,
    *,
    clock: Clock | None = None,
    entropy: Entropy | None = None,
    host: Host | None = None,
    create: bool = True,
    ready: bool = True,
    durability: str | None = None,
) -> Relight:
    """Open a store: by URL, by the path of an SQLite file, by RELIGHT_STORE, or in the user's data directory.

    `url` may also be a Store of your own, which passes the kit of `relight.testing`; closing the result closes it too.

    `durability` (default: RELIGHT_DURABILITY) refuses a store with less: "power-loss", "process-crash" or "none".
    Without `create` a file that does not exist is read as an empty store, and not created.
    Without `ready` the modules that load and save sessions are imported on first use, which makes lists faster.
    """
    if ready:
        _import_session_modules()
    return Relight(_context(url, clock=clock, entropy=entropy, host=host, create=create, durability=durability))


def _import_session_modules() -> None:
    """Import now what the first load or save of a session needs."""
    for name in ("zstandard", "relight.journal.fold", "relight.sessions.session"):
        import_module(name)


@contextmanager
def open_context(url: str | None = None) -> Iterator[Context]:
    """The ports of a store without the library facade, for use cases that it does not offer."""
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
    durability: str | None = None,
) -> Context:
    clock = clock or SystemClock()
    store = open_store(url, clock, create=create, durability=durability)
    return Context(
        store=recorded_store(store, redactor),
        clock=clock,
        entropy=entropy or SystemEntropy(),
        host=host or SystemHost(),
        heartbeat=Heartbeat(),
        runtimes=lambda name, session, network: _runtime(store, name, session, network),
        agents=Agents(),
        hooks=Hooks(),
        redactor=redactor,
        declare_secrets=_declare_secrets,
        run_directory=lambda session: _run_directory(store, session),
        run_directories=lambda: _run_directories(store),
        remove_run_directory=lambda session: _remove_run_directory(store, session),
        write_private=write_private,
        environment=os.environ,
        prices=cache(own_prices),
        uses_library=_uses_library,
        workspaces=cache(lambda: _workspaces(store)),
        notify=notice,
        sweep_in_background=lambda: _sweep_in_background(store),
        inherited=inheritance.handed(os.environ),
        mark_as_program=lambda session: inheritance.took(session, os.environ),
        open_other=lambda other: _context(other, clock=clock, entropy=entropy, host=host, create=True),
        commands=_inherited_command(),
    )


def open_store(
    url: str | os.PathLike[str] | Store | None, clock: Clock, *, create: bool = True, durability: str | None = None
) -> Store:
    """The store at an address, or the given one. StoreUnavailable if its durability is less than demanded."""
    configuration.apply(os.environ)
    store = _store_at(url, clock, create=create)
    demanded = durability or os.environ.get("RELIGHT_DURABILITY")
    if not demanded or _is_placeholder(store, url):
        return store
    try:
        _check_durability(store, demanded)
    except BaseException:
        store.close()
        raise
    return store


def _is_placeholder(store: Store, url: str | os.PathLike[str] | Store | None) -> bool:
    """Whether it is the empty memory store that represents a store that does not exist yet."""
    asked = url if url is not None else os.environ.get("RELIGHT_STORE")
    return store.url == "memory:" and asked != "memory:" and asked is not store


def _check_durability(store: Store, demanded: str) -> None:
    from relight.values.store import LEVELS, reaches

    if demanded not in LEVELS:
        raise UsageError(f"no durability called {demanded!r}", hints=["there are: " + ", ".join(LEVELS)])
    info = store.info
    if not reaches(info.durability, demanded):
        why = f": {info.durability_reason}" if info.durability_reason else ""
        raise StoreUnavailable(
            f"{info.location.rstrip(':')}: durability {demanded} is required, and this store has "
            f"{info.durability}{why}; no session was changed",
            hints=info.durability_cures or ["choose a store that has it: set RELIGHT_STORE"],
        )


def _store_at(url: str | os.PathLike[str] | Store | None, clock: Clock, *, create: bool) -> Store:
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


def schema_statuses(url: str | None = None) -> list[SchemaStatus]:
    """The version of each schema at an address; changes nothing. Empty for a store without one."""
    configuration.apply(os.environ)
    address = url or os.environ.get("RELIGHT_STORE") or default_path()
    if address == "memory:":
        return []
    if address.partition("://")[0] in _POSTGRES:
        with _needs("postgres", "psycopg", "a store on PostgreSQL"):
            from relight.stores.postgres.store import PostgresStore
        return [PostgresStore.schema_status(address), *_engine_schema_status(address)]
    if address.partition("://")[0] in _REDIS:
        with _needs("redis", "redis", "a store on Redis"):
            from relight.stores.redis.store import RedisStore
        return [RedisStore.schema_status(address, SystemClock())]
    from relight.stores.sqlite.store import SqliteStore

    return [SqliteStore.schema_status(sqlite_path(address))]


def _engine_schema_status(address: str) -> list[SchemaStatus]:
    """The schema version of the wakeup engine that this store's workers would use, if it has one."""
    if not _is_procrastinate(address):
        return []
    with _needs("fleet", "procrastinate", "the engine procrastinate"):
        from relight.fleet.engines.procrastinate.schema import schema_status
    return [schema_status(address)]


def migrate(url: str | None = None) -> None:
    """Create or migrate the schemas of a store and its wakeup engine; safe in several processes at once."""
    store = open_store(url, SystemClock())
    try:
        engine = open_engine(store)
        try:
            engine.prepare()
        finally:
            engine.close()
    finally:
        store.close()


@contextmanager
def _needs(extra: str, package: str, what: str) -> Iterator[None]:
    """Around an optional import: MissingExtra, with the command that installs it, if its package is missing."""
    try:
        yield
    except ImportError as error:
        # Without a name it is the driver's own ImportError, for a shared library it needs.
        if error.name not in (package, None):
            raise
        raise MissingExtra(extra, needed_for=what) from None


def _postgres_store(address: str, clock: Clock, *, create: bool) -> Store:
    with _needs("postgres", "psycopg", "a store on PostgreSQL"):
        from relight.stores.postgres.store import PostgresStore
    if create:
        return PostgresStore(address, clock, local=_data_directory(), blobs=_blobs())
    found = PostgresStore.found(address, clock, local=_data_directory(), blobs=_blobs())
    if found is not None:
        return found
    from relight.stores.memory import MemoryStore

    return MemoryStore(clock)


def _redis_store(address: str, clock: Clock, *, create: bool) -> Store:
    with _needs("redis", "redis", "a store on Redis"):
        from relight.stores.redis.store import RedisStore
    tell = notice if create else _discard_notice
    return RedisStore(address, clock, local=_data_directory(), blobs=_blobs(), tell=tell)


def _discard_notice(line: str) -> None:
    """For readers: they need no warning about what a write would risk."""


def _data_directory() -> Path:
    return Path(default_path()).parent


def _blobs() -> Path | None:
    """The local directory for workspace content that RELIGHT_BLOBS names; None if it names none."""
    named = os.environ.get("RELIGHT_BLOBS")
    return Path(named).absolute() if named and _is_directory(named) else None


def default_path() -> str:
    """`relight/relight.db` in the user's data directory."""
    directory = configuration.user_directory(os.environ, "XDG_DATA_HOME", ".local/share")
    if directory is None:
        raise StoreUnavailable(
            "HOME is not set, so there is no data directory to store sessions in",
            hints=["set RELIGHT_STORE=sqlite:////path/to/relight.db"],
        )
    return str(directory / "relight.db")


def sqlite_path(address: str) -> Path:
    """The file of an SQLite store's address. UnknownStore for other addresses."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        if ":" in address.split("/", maxsplit=1)[0]:
            raise UnknownStore(address, known=KNOWN)
        return Path(address)
    if scheme != "sqlite" or not rest.startswith("/") or len(rest) < 2:
        raise UnknownStore(address, known=KNOWN)
    return Path(unquote(rest[1:]))


def refuse_missing(url: str | None, named: str = "--store") -> None:
    """StoreUnavailable if an SQLite store was named, by `url` or by RELIGHT_STORE, and its file does not exist.
    `named`: the option or argument that `url` was given by."""
    configuration.apply(os.environ)
    address = url or os.environ.get("RELIGHT_STORE")
    if not address or address == "memory:" or address.partition("://")[0] in (*_POSTGRES, *_REDIS):
        return
    path = sqlite_path(address)
    if path.exists():
        return
    others = sorted(one.name for one in path.parent.glob("*.db"))[:_MAX_NEIGHBOURS]
    raise StoreUnavailable(
        f"there is no store at {path}, which is named by {named if url else 'RELIGHT_STORE'}",
        evidence=[f"in that directory: {', '.join(others)}"] if others else (),
        hints=["check the path", "`relight run`, or a program's first session, creates the store"],
    )


def _workspaces(store: Store) -> Workspaces:
    named = os.environ.get("RELIGHT_WORKSPACES") or TREE
    if named != TREE:
        factory: WorkspacesFactory = _added(entry_points.WORKSPACES, named, "workspaces", (TREE,))
        return factory(store, os.environ)
    from relight.workspaces.home import TreeWorkspaces
    from relight.workspaces.policy import policy_from_environment

    is_chosen = bool(os.environ.get("RELIGHT_BLOBS"))
    own = _own_paths(store)
    return TreeWorkspaces(
        store, policy_from_environment(os.environ), _remote_blobs(store), is_chosen=is_chosen, own=own
    )


def _own_paths(store: Store) -> list[Path]:
    """The store's own files on this machine, which no workspace captures or restores."""
    root = _known_run_root(store)
    if root is None:
        return []
    return [root] if store.info.on_server else [root, sqlite_path(store.url).absolute()]


def _remote_blobs(store: Store) -> Blobs | None:
    """Remote storage for workspace content, if RELIGHT_BLOBS names it; None for a memory store."""
    named = os.environ.get("RELIGHT_BLOBS", "")
    scheme = named.partition(":")[0]
    if not named or _is_directory(named) or store.url == "memory:":
        return None
    if scheme == "file" and named.startswith("file:///"):
        from relight.blobs.directory import DirectoryBlobs

        return DirectoryBlobs(Path(unquote(named.removeprefix("file://"))))
    if scheme in _POSTGRES and not named.partition(":")[2]:
        if store.info.kind != "postgres":
            raise UsageError("RELIGHT_BLOBS=postgresql: needs a store on PostgreSQL, and this store is not")
        from relight.blobs.postgres import PostgresBlobs

        return PostgresBlobs(cast("PostgresStore", store).connections)
    if scheme != "s3":
        known = ("a directory", "file:///shared/directory", "s3://bucket/prefix", "postgresql:")
        factory: BlobsFactory = _added(entry_points.BLOBS, scheme, "blob storage", known)
        return factory(named, os.environ)
    try:
        from relight.blobs.s3 import S3Blobs
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        raise MissingExtra("s3", needed_for="content in object storage") from None
    return S3Blobs(named, os.environ)


def _is_directory(named: str) -> bool:
    """Whether it is a path on this machine, not a URL."""
    return "://" not in named and named.rstrip(":") not in BLOB_SCHEMES


def _runtime(store: Store, name: str, session: str, network: bool) -> Runtime:
    """The runtime of this name; `session` is needed by those that have a directory per session."""
    if name == "tmux":
        from relight.runtimes.tmux.runtime import TmuxRuntime

        return TmuxRuntime(_run_root(store) / "tmux")
    from relight.runtimes.process.runtime import ProcessRuntime

    plain = ProcessRuntime(clean=lambda text: redactor().text(text))
    if name == "process":
        return plain
    if name == "sandbox":
        from relight.runtimes.sandbox import SandboxRuntime

        return SandboxRuntime(
            plain,
            _run_root(store) / "homes",
            readable=[_run_directory(store, session)] if session else [],  # with the hook socket
            network=network,
            session=session,
            private=_private_directories(store),
            forgotten=(*_OURS, *(_OF_POSTGRES if store.url.partition("://")[0] in _POSTGRES else ())),
        )
    factory: RuntimeFactory = _added(entry_points.RUNTIMES, name, "runtime", RUNTIMES)
    place = _run_root(store) / "runtimes" / sha256(name.encode()).hexdigest()[:16]
    return factory(RuntimeRequest(session=session, directory=place, network=network))


def _added(group: str, name: str, what: str, built_in: Sequence[str]) -> Any:
    """What another distribution registers under this name. UsageError if none does, with the names there are."""
    point = entry_points.find(group, name)
    if point is None:
        known = ", ".join((*built_in, *dict.fromkeys(one.name for one in entry_points.installed(group))))
        raise UsageError(f"no {what} called {name[:100]!r}", hints=[f"there are: {known}"])
    return factory_of(point)


def _uses_library(command: Sequence[str], directory: str) -> bool:
    from relight.system.program_files import uses_library  # imported late: only a start with a budget asks

    return uses_library(command, directory)


def factory_of(point: entry_points.EntryPoint) -> Any:
    """The function that an entry point registers. UsageError if it cannot be loaded, or is none."""
    found = entry_points.load(point)
    if not callable(found):
        raise entry_points.unusable(point, f"expected a function, not {type(found).__name__}")
    return found


def _private_directories(store: Store) -> list[Path]:
    """Directories with the store, its tokens and other sessions' files, which a sandbox must hide."""
    found = [_data_directory(), _run_root(store)]
    if not store.info.on_server:
        found.append(sqlite_path(store.url).absolute().parent)
    named, blobs = os.environ.get("RELIGHT_BLOBS", ""), _blobs()
    if named.startswith("file:///"):
        blobs = Path(unquote(named.removeprefix("file://")))
    return [*found, blobs] if blobs is not None else found


def _run_directory(store: Store, session: str) -> Path:
    """A session's directory beside the database, for its hook socket, settings and output; private to the user."""
    from relight.system.private_directories import make_trusted

    root = _run_root(store)
    make_trusted(root, marked=True)
    directory = root / session
    make_trusted(directory)
    return directory


def _run_directories(store: Store) -> list[str]:
    """Ids of the sessions that have a run directory."""
    root = _known_run_root(store)
    if root is None or not root.is_dir():
        return []
    return sorted(path.name for path in root.iterdir() if is_session_id(path.name))


def _remove_run_directory(store: Store, session: str) -> None:
    from shutil import rmtree

    root = _known_run_root(store)
    if root is not None and is_session_id(session):
        for path in (root / session, root / "homes" / session):
            rmtree(path, ignore_errors=True)


def _known_run_root(store: Store) -> Path | None:
    """The root of run directories; None for memory and for custom stores, where nothing is supervised."""
    try:
        return _run_root(store)
    except UnknownStore:
        return None


def _run_root(store: Store) -> Path:
    info = store.info
    if not info.on_server:
        return Path(f"{sqlite_path(store.url)}.run").absolute()
    return _data_directory() / f"server-{sha256(info.location.encode()).hexdigest()[:8]}.run"


def server_directory(store: Store) -> Path:
    """The directory of a server's own files: tokens, audit log, callbacks."""
    return _run_root(store) / "server"


def _declare_secrets(names: Sequence[str]) -> None:
    """Treat the values of these variables as secrets from here on, in this process and its children."""
    known = [name for name in os.environ.get(SECRETS_VARIABLE, "").split(",") if name]
    if set(names) - set(known):
        os.environ[SECRETS_VARIABLE] = ",".join(dict.fromkeys((*known, *names)))
        redactor.cache_clear()  # the cached one knows only the variables of before


def own_prices() -> Mapping[str, Price]:
    """The prices in the file that RELIGHT_PRICES names; empty if it is not set."""
    named = os.environ.get("RELIGHT_PRICES")
    if not named:
        return {}
    from relight.journal.prices import read_prices

    try:
        text = Path(named).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the price file RELIGHT_PRICES={named[:200]}: {error}") from None
    return read_prices(text)


def _sweep_in_background(store: Store) -> None:
    """Start the sweep process, which itself decides whether it is its turn; not waited for."""
    if store.url == "memory:":
        return
    from relight.processes.background import sweep_in_background

    sweep_in_background(store.url, by="a supervisor")


def _inherited_command() -> dict[str, tuple[str, ...]]:
    """The command line as typed, from the process that started this supervisor in the background."""
    given = os.environ.pop(COMMAND_VARIABLE, None)  # removed: the program must not inherit it
    if not given:
        return {}
    from json import loads

    session, *words = loads(given)
    return {session: tuple(words)}


def open_engine(store: Store, clock: Clock | None = None, name: str | None = None) -> WorkEngine:
    """The wakeup engine of a store: by name, by RELIGHT_ENGINE, or the best one installed."""
    asked = name or os.environ.get("RELIGHT_ENGINE") or ""
    if asked == "procrastinate" and store.url.partition("://")[0] not in _POSTGRES:
        hints = ["leave out the engine: embedded works on every store"]
        raise UsageError("procrastinate needs a store on PostgreSQL, and this store is not", hints=hints)
    if asked not in ("", "embedded", "procrastinate"):
        raise UsageError(f"no engine called {asked!r}", hints=["there are: embedded, procrastinate"])
    if _is_procrastinate(store.url, asked):
        with _needs("fleet", "procrastinate", "the engine procrastinate"):
            from relight.fleet.engines.procrastinate.engine import ProcrastinateEngine
        return ProcrastinateEngine(store, clock or SystemClock())
    from relight.fleet.engines.embedded import EmbeddedEngine

    return EmbeddedEngine(store, clock or SystemClock())


def _is_procrastinate(address: str, asked: str | None = None) -> bool:
    from importlib.util import find_spec

    asked = asked or os.environ.get("RELIGHT_ENGINE") or ""
    on_postgres = address.partition("://")[0] in _POSTGRES
    return asked == "procrastinate" or (not asked and on_postgres and find_spec("procrastinate") is not None)


_FOR_ATTENDING: Final = (
    *(place.partition(":")[0] for place in (*(one.adapter for one in BUILT_IN.values()), COMMAND)),
    "relight.runtimes.process.runtime",
    "relight.supervision.agent",
    "relight.supervision.launch",
    "relight.supervision.program",
)


def import_for_attending() -> None:
    """Import everything an attendant needs, for the fork server: opens nothing and starts no thread."""
    scheme = os.environ.get("RELIGHT_STORE", "").partition("://")[0]
    kind = "postgres" if scheme in _POSTGRES else "redis" if scheme in _REDIS else "sqlite"
    _import_session_modules()
    import_module(f"relight.stores.{kind}.store")
    for name in _FOR_ATTENDING:
        import_module(name)


def work_loop(rl: Relight, options: WorkerOptions, log: Log, *, engine: str | None = None) -> WorkLoop:
    """A worker on an open store, with its wakeup engine and its attendants."""
    from relight.fleet.worker import WorkLoop
    from relight.processes.attendants import ProcessAttendants
    from relight.supervision.launch import refuse_unshared

    context = rl._context
    refuse_unshared(context)
    chosen = open_engine(context.store, context.clock, engine)
    chosen.prepare()
    attendants = ProcessAttendants(context.store.url, options.name, context.run_directory, os.environ)
    return WorkLoop(context, chosen, attendants, options, log)
