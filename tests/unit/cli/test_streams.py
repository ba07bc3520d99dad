"""Standard streams as a caller leaves them: closed, a pipe without a reader, a file on a full disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import relight
from tests.support.shell import environment


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with relight.open(tmp_path / "r.db") as rl, rl.session("s") as s:
        s.append({"role": "user", "content": "x"})
        s.complete(1)
    return tmp_path / "r.db"


def typed(store: Path, words: str, streams: str) -> subprocess.CompletedProcess[str]:
    line = f"set -o pipefail; {sys.executable} -m relight {words} {streams}"
    return subprocess.run(
        ["bash", "-c", line],
        check=False,
        env=environment(store),
        cwd=store.parent,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("streams", [">&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", ["list", "show s --json", "help", "run --name c -- sh -c 'echo x'"])
def test_a_command_works_without_its_standard_streams(store: Path, words: str, streams: str) -> None:
    done = typed(store, words, streams)
    assert (done.returncode, done.stdout) == (0, "") and "Traceback" not in done.stderr, done
    with relight.open(store) as rl:
        assert all(str(info.status) == "completed" for info in rl.sessions.list())


@pytest.mark.parametrize("words", ["list", "show s --json", "help", "--version", "completion bash"])
def test_output_that_cannot_be_written_is_not_taken_for_a_full_store(store: Path, words: str) -> None:
    done = typed(store, words, ">/dev/full")
    assert done.returncode == 1
    assert "standard output cannot be written: no space left" in done.stderr
    assert "RL-5005" not in done.stderr and "Exception ignored" not in done.stderr


def test_a_reader_that_leaves_is_no_error(store: Path) -> None:
    done = typed(store, "list --json", "| true")
    assert done.returncode in (0, 141) and done.stderr == ""


@pytest.mark.parametrize("flag", ["--json", "--prices"])
def test_a_service_file_is_printed_alone(store: Path, flag: str) -> None:
    done = typed(store, f"doctor --service {flag}", "")
    assert done.returncode == 2 and f"--service cannot be combined with {flag}" in done.stderr
