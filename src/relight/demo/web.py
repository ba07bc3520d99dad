"""The page of the run: a server over the demo's own store, in a process of its own, for as long as somebody looks.

It is the same `relight serve` that a user starts, ended when the demo is.
"""

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
from relight.demo.screen import Screen, keyboard_is_ours
from relight.demo.stage import Stage
from relight.errors import AgentFailed

KEY: Final = b"w"
ASK_SECONDS: Final = 30.0
"""nobody there: the demo ends by itself"""
_END_SECONDS: Final = 10.0


def can_serve() -> bool:
    """Are the packages there that a server needs?"""
    return all(find_spec(name) is not None for name in PACKAGES)


@contextmanager
def serving(stage: Stage, screen: Screen, page: str = "/") -> Iterator[subprocess.Popen[bytes]]:
    """A server over the demo's store, its link shown; ended with the context. AgentFailed where it does not start."""
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
    """In a browser, where one can be seen from here."""
    seen = os.environ.get("DISPLAY") or sys.platform == "darwin"
    if seen and keyboard_is_ours() and not os.environ.get("SSH_CONNECTION"):
        import webbrowser

        webbrowser.open(link)


def forget_keys() -> None:
    """What was typed to skip a pause is no answer to what is asked next."""
    import termios

    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def wanted() -> bool:
    """One key at the end: does somebody want to see it?"""
    readable, _, _ = select.select([sys.stdin], [], [], ASK_SECONDS)
    return bool(readable) and os.read(sys.stdin.fileno(), 16)[:1] == KEY


def wait_for_the_end(child: subprocess.Popen[bytes]) -> None:
    """Until a key is pressed, or where there is no keyboard until the server is ended."""
    if keyboard_is_ours():
        os.read(sys.stdin.fileno(), 16)
    else:
        child.wait()
