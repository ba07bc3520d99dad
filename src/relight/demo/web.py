"""The dashboard of the run: `relight serve` over the demo's own store, in a child process that ends with the demo."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from relight.cli.maintenance.serve import PACKAGES
from relight.cli.render.style import Span
from relight.demo.screen import Screen, can_read_keys
from relight.demo.stage import Stage
from relight.errors import AgentFailed

KEY: Final = b"w"
ASK_SECONDS: Final = 30.0
"""without a key the demo ends"""
_END_SECONDS: Final = 10.0


def can_serve() -> bool:
    """Are the packages of the extra `server` installed?"""
    return all(find_spec(name) is not None for name in PACKAGES)


@contextmanager
def serving(stage: Stage, screen: Screen, page: str = "/") -> Iterator[subprocess.Popen[bytes]]:
    """Start a server over the demo's store and print its link; AgentFailed if it does not start."""
    command = [sys.executable, "-P", "-m", "relight.cli", "serve", "--port", "0", "--no-sweep", "--no-open"]
    environment = {**os.environ, "RELIGHT_STORE": str(stage.store), "RELIGHT_HINTS": "0"}
    child = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert child.stdout is not None
    try:
        link = child.stdout.readline().decode().strip()
        if not link:
            raise AgentFailed("the server did not start", hints=["see why: relight serve --port 0"])
        link += f"&next={page}" if page != "/" else ""
        screen.put_whole("page   ", Span(link, "ref"))
        _open(link)
        yield child
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        child.stdout.close()


def _open(link: str) -> None:
    """Open the link in a browser, if this machine has a display."""
    has_display = os.environ.get("DISPLAY") or sys.platform == "darwin"
    if has_display and can_read_keys() and not os.environ.get("SSH_CONNECTION"):
        import webbrowser

        webbrowser.open(link)


def forget_keys() -> None:
    """Discard keys typed to skip a pause: they do not answer the next question."""
    import termios

    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def is_wanted() -> bool:
    """Wait for a key; True if it asks for the page."""
    readable, _, _ = select.select([sys.stdin], [], [], ASK_SECONDS)
    return bool(readable) and os.read(sys.stdin.fileno(), 16)[:1] == KEY


def wait_for_the_end(child: subprocess.Popen[bytes]) -> None:
    """Wait for a key, or without a keyboard for the end of the server."""
    if can_read_keys():
        os.read(sys.stdin.fileno(), 16)
    else:
        child.wait()
