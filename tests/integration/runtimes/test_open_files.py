"""Which session's process has a file open: how an agent's transcript is known among others begun at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from relight.ports.runtime import SESSION_VARIABLE
from relight.runtimes.process.runtime import ProcessRuntime

OPENS = "import sys; file = open(sys.argv[1], 'a'); print('open', flush=True); sys.stdin.read()"


@contextmanager
def opened(path: Path, session: str) -> Iterator[None]:
    """A process of this session that has the file open."""
    environment = {**os.environ, SESSION_VARIABLE: session}
    command = [sys.executable, "-I", "-S", "-c", OPENS, str(path)]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        yield


def test_a_file_belongs_to_the_session_whose_process_has_it_open(tmp_path: Path) -> None:
    runtime, path = ProcessRuntime(), tmp_path / "transcript.jsonl"
    path.touch()
    assert runtime.holds_open(path, "a" * 32) is None
    with opened(path, "b" * 32):
        assert runtime.holds_open(path, "a" * 32) is False
        assert runtime.holds_open(path, "b" * 32) is True
        with opened(path, "a" * 32):
            assert runtime.holds_open(path, "a" * 32) is True
    link = tmp_path / "link"
    link.symlink_to(path)
    with opened(link, "a" * 32):
        assert runtime.holds_open(path, "a" * 32) is True
