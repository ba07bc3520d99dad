"""The command as people use it: real processes, on a pipe or on a real terminal of a given width."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import relight
from relight.system.sqlite import WaitingConnection
from tests.support.command_server import CommandServer

_server = CommandServer()
SOURCE = str(Path(relight.__file__).resolve().parent.parent)
SECONDS = 20.0 if os.environ.get("RELIGHT_TEETH") else 60.0
"""how long is waited for what has to come: a test against a planted bug waits in vain, one of the suite never"""
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


class Screen(NamedTuple):
    """What a terminal showed, and the exit code."""

    text: str
    code: int

    @property
    def lines(self) -> list[str]:
        return _ESCAPES.sub("", self.text).splitlines()


def environment(store: Path | str, **more: str) -> dict[str, str]:
    """Of a shell that uses the same relight as this test, compiled once for all of them."""
    unwanted = {"PYTHONDONTWRITEBYTECODE", "NO_COLOR", "CLICOLOR_FORCE", "COLUMNS", "ACCESSIBLE", "RELIGHT_HINTS"}
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return {
        **kept,
        "PYTHONPATH": SOURCE,
        "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / f"relight-pyc-{os.getuid()}"),
        "RELIGHT_STORE": str(store),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm",
        "TZ": "UTC",
        **more,
    }


def command(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "relight.cli", *words]


def run_command(
    words: Sequence[str], *, env: dict[str, str], cwd: Path, stdin: str = "", seconds: float = SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, on pipes."""
    done = _server.run(list(words), env=env, cwd=cwd, stdin=stdin, seconds=seconds)
    return done or subprocess.run(
        command(*words), env=env, cwd=cwd, input=stdin, capture_output=True, text=True, timeout=seconds, check=False
    )


class Shell:
    """Runs the command against one store, in one directory."""

    def __init__(self, store: Path | str, directory: Path) -> None:
        """`store` is a file, or the address of a server."""
        self.store, self.directory = Path(store), directory
        self.address = str(store)

    def run(self, *words: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        """On pipes."""
        return run_command(words, env=environment(self.address, **more), cwd=self.directory, stdin=stdin)

    def start(self, *words: str, **more: str) -> subprocess.Popen[str]:
        """On pipes, not waited for."""
        return subprocess.Popen(
            command(*words),
            env=environment(self.address, **more),
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def json(self, *words: str) -> Any:
        import json

        done = self.run(*words, "--json")
        assert done.returncode in (0, 4), done.stderr
        return json.loads(done.stdout)

    def screen(self, *words: str, width: int = 80, keys: bytes = b"", when: str = "", **more: str) -> Screen:
        """On a terminal of this width; `keys` are typed at once, or when the text `when` is on the screen."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.directory)
            os.execvpe(sys.executable, command(*words), environment(self.address, **more))
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
        if keys and not when:
            os.write(terminal, keys)
        text = _read_to_end(terminal, pid, keys if when else b"", when)
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
        return Screen(text.replace("\r\n", "\n"), os.waitstatus_to_exitcode(status))


def _read_to_end(terminal: int, pid: int, keys: bytes, when: str) -> str:
    output, deadline = b"", time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if keys and when.encode() in output:
            os.write(terminal, keys)
            keys = b""
        ready, _, _ = select.select([terminal], [], [], 1.0)
        if not ready:
            continue
        try:
            chunk = os.read(terminal, 65_536)
        except OSError:
            return output.decode("utf-8", "replace")
        if not chunk:
            return output.decode("utf-8", "replace")
        output += chunk
    os.kill(pid, signal.SIGKILL)
    raise AssertionError(f"the command did not end; it showed:\n{output.decode('utf-8', 'replace')}")


def eventually(condition: Callable[[], Any], *, seconds: float = SECONDS, what: str = "the condition") -> Any:
    """Wait for a condition, with a bound; its value."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come true within {seconds:g} s")


def logical_dump(store: Path) -> str:
    """All rows of all tables but the index of words, which follows the journal by itself."""
    # With the library that relight uses: closing the file in another one would drop the locks that this process has.
    connection = WaitingConnection(store, busy_seconds=SECONDS)
    try:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'search_%'")
        names = [name for (name,) in tables]
        schema = connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()
        rows = [(name, row) for name in sorted(names) for row in connection.execute(f'SELECT * FROM "{name}"')]
        return "\n".join(map(repr, [*schema, *rows]))
    finally:
        connection.close()
