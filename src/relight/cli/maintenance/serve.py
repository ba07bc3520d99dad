"""`relight serve`: serve the dashboard and the HTTP API, by default on this machine only."""

from __future__ import annotations

import os
import resource
import socket
import sys
from importlib import import_module
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import click

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import verb
from relight.cli.render.style import Span
from relight.errors import Conflict, MissingExtra, NotFound, UsageError
from relight.server.settings import DEFAULT_PORT, LOOPBACK, ServerSettings

PACKAGES: Final = ("fastapi", "uvicorn", "jinja2", "prometheus_client")
"""packages of the extra `server`"""
_EVERYWHERE: Final = ("0.0.0.0", "::")
_PEER_MS: Final = 60_000
_ADDRESS: Final = "address"
_ANSWER_SECONDS: Final = 2.0
_OTHER_FILES: Final = 1000
"""open files besides the streams: requests, the store, children that are started"""


@verb(
    "serve",
    ("serve", "prints a login link, valid once, for one minute"),
    ("serve --link", "a new link to the running server"),
    ("serve --host 0.0.0.0 --cert c.pem --key k.pem", "for other machines, over TLS"),
)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="H", help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=DEFAULT_PORT, show_default=True, metavar="P", help="0: any."
)
@click.option("--name", "names", multiple=True, metavar="HOST", help="Another host name of the server.")
@click.option("--cert", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="TLS certificate.")
@click.option("--key", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="Key of the certificate.")
@click.option("--insecure-host", is_flag=True, help="Allow an address other than loopback without TLS.")
@click.option(
    "--shared-host",
    is_flag=True,
    help="Log in at 127.0.0.1 itself, for browsers without names under .localhost. Every other server of this"
    " machine then receives the login cookie.",
)
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@click.option("--no-sweep", is_flag=True, help="Do not remove finished sessions once a day.")
@click.option("--no-upkeep", is_flag=True, help="Do not verify digests and try a restore once a day.")
@click.option("--log", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Log format.")
@click.option("--link", is_flag=True, help="Only print a new link to the running server on this store.")
@pass_context
def serve(
    cli: CliContext,
    host: str,
    port: int,
    names: tuple[str, ...],
    cert: str | None,
    key: str | None,
    insecure_host: bool,
    shared_host: bool,
    no_open: bool,
    no_sweep: bool,
    no_upkeep: bool,
    log: Literal["text", "json"],
    link: bool,
) -> int:
    """Serve the dashboard and the HTTP API until stopped.

    Without TLS it listens on this machine only. Its token is in a private file beside the store.
    """
    if (cert is None) != (key is None):
        raise UsageError("--cert and --key must be given together")
    if host not in LOOPBACK and cert is None and not insecure_host:
        hints = [
            "use TLS: --cert FILE --key FILE",
            f"or use a tunnel: ssh -L {port}:127.0.0.1:{port} {socket.gethostname()}",
            "or accept the risk: --insecure-host",
        ]
        raise UsageError(f"{host}: others could read the traffic; TLS is required", hints=hints)
    check_extra()
    if link:
        return _print_link(cli)
    return _serve(
        cli,
        {
            "host": host,
            "port": port,
            "secure": cert is not None,
            "log": log,
            "shared_host": shared_host,
            "sweep": not no_sweep,
            "upkeep": not no_upkeep,
        },
        names=names,
        tls={"ssl_certfile": cert, "ssl_keyfile": key} if cert else {},
        opens=not no_open,
    )


def check_extra(*, needed_for: str = "relight serve") -> None:
    """MissingExtra unless the packages of the extra `server` are installed."""
    try:
        for package in PACKAGES:
            import_module(package)
    except ImportError:
        raise MissingExtra("server", needed_for=needed_for) from None


def _serve(cli: CliContext, asked: dict[str, Any], *, names: tuple[str, ...], tls: dict[str, Any], opens: bool) -> int:
    from relight import wiring
    from relight.server.app import create_app, make_guard
    from relight.server.http import logs
    from relight.server.http.server import HttpServer
    from relight.server.metrics import Metrics
    from relight.server.timed_store import time_commits
    from relight.system.machine import SystemClock, write_private

    logs.set_up(asked["log"])
    metrics = Metrics()
    store = time_commits(wiring.open_store(cli.store, SystemClock()), metrics)
    if store.url == "memory:":
        hints = ["choose another store: set RELIGHT_STORE, or pass --store"]
        raise UsageError("a memory store exists in one process only; it cannot be served", hints=hints)
    with wiring.open(store) as rl, _listening(asked["host"], asked["port"]) as listener:
        asked["port"] = listener.getsockname()[1]
        settings = ServerSettings(
            directory=wiring.server_directory(store),
            hosts=_hosts(asked["host"], names),
            any_address=asked["host"] in _EVERYWHERE,
            callback_allow=_allowed(os.environ.get("RELIGHT_CALLBACK_ALLOW", "")),
            **asked,
        )
        raise_open_files(settings.streams + _OTHER_FILES)
        guard = make_guard(settings)
        app = create_app(rl, guard=guard, settings=settings, metrics=metrics)
        write_private(settings.directory / _ADDRESS, _address(settings).encode("ascii"))
        _announce(cli, settings, guard.tokens.new_code(settings.code_seconds), opens=opens)
        HttpServer(app, **tls).run(sockets=[listener])
        guard.tokens.state.close()
    return 0


def raise_open_files(wanted: int) -> int:
    """Raise the limit of open files to `wanted`, as far as permitted; returns the limit. Each stream needs one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unbounded = resource.RLIM_INFINITY
    target = wanted if hard == unbounded else min(wanted, hard)
    if soft != unbounded and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _listening(host: str, port: int) -> socket.socket:
    """Bind and listen before anything is printed, so that the printed link works."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio recognises TCP and sets TCP_NODELAY: small writes are not delayed.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # a peer that does not read, or is gone, must not hold its buffers forever
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _PEER_MS)
    try:
        listener.bind((host, port))
    except (OSError, UnicodeError) as error:
        listener.close()
        hints = [
            "link to the running server: relight serve --link",
            "or use another port: relight serve --port 0",
        ]
        raise Conflict(f"{host}:{port}: cannot listen there ({error})", hints=hints) from None
    listener.listen(2048)
    return listener


def _hosts(host: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Host names that are accepted in the Host header."""
    own = [socket.gethostname(), *([host] if host not in _EVERYWHERE else [])] if host not in LOOPBACK else []
    return tuple(name.lower() for name in (*LOOPBACK, *own, *names))


def _allowed(text: str) -> tuple[str, ...]:
    return tuple(part.strip().lower() for part in text.split(",") if part.strip())


def _address(settings: ServerSettings) -> str:
    host = settings.host if settings.host not in _EVERYWHERE else "127.0.0.1"
    host = f"[{host}]" if ":" in host else host
    return f"{'https' if settings.secure else 'http'}://{host}:{settings.port}"


def _announce(cli: CliContext, settings: ServerSettings, code: str, *, opens: bool) -> None:
    """Print the link to stdout, for programs, and the rest to stderr."""
    link = f"{_address(settings)}/login?code={code}"
    cli.console.row((link,)) if not cli.console.out.terminal else cli.console.write([[Span(link, "bold")]])
    sys.stdout.flush()
    cli.console.say("valid once, for one minute; for a new one: relight serve --link")
    cli.console.say(f"token for programs: {settings.directory / 'token'}")
    if os.environ.get("SSH_CONNECTION"):
        cli.console.say(f"from your machine: ssh -L {settings.port}:127.0.0.1:{settings.port} {socket.gethostname()}")
    elif opens and cli.console.out.terminal and (os.environ.get("DISPLAY") or sys.platform == "darwin"):
        import webbrowser

        webbrowser.open(link)


def _print_link(cli: CliContext) -> int:
    """Print a link to the running server. A killed server leaves its address file, so the port is tried first."""
    from relight.cli.maintenance.token import directory_of, tokens_in

    missing = NotFound("serve", what="server of this store", hints=["start one: relight serve"])
    if str(cli.store) == "memory:":  # no store is there yet
        raise missing
    directory = directory_of(cli, create=False)
    try:
        address = (directory / _ADDRESS).read_text(encoding="ascii")
        at = urlsplit(address)
        socket.create_connection((at.hostname or "", at.port or 0), _ANSWER_SECONDS).close()
    except OSError:
        raise missing from None
    code = tokens_in(directory).new_code(ServerSettings(directory=directory).code_seconds)
    cli.console.row((f"{address}/login?code={code}",))
    return 0
