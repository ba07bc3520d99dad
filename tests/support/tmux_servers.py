"""Directories for tmux servers of a test's own, whose servers are ended by their pid when it is over."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path


class Sockets:
    """Short paths, because a socket's may not be long."""

    def __init__(self) -> None:
        self._all: list[Path] = []

    def new(self) -> Path:
        self._all.append(Path(tempfile.mkdtemp(prefix="rl-", dir="/tmp")))
        return self._all[-1]

    def server(self, directory: Path) -> int | None:
        """The pid of the server that listens there."""
        command = ["tmux", "-S", str(directory / "tmux.sock"), "display-message", "-p", "#{pid}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return int(done.stdout) if done.returncode == 0 and done.stdout.strip() else None

    def close(self) -> None:
        for directory in self._all:
            if (pid := self.server(directory)) is not None:
                os.kill(pid, signal.SIGTERM)
            shutil.rmtree(directory, ignore_errors=True)
