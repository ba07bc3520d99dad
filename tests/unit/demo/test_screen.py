"""What the demo looks like, and how it ends when somebody ends it."""

from __future__ import annotations

import errno
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from relight.cli.render.cells import cells
from tests.unit.demo.playing import RELIGHT, environment, play, players, wait_for

TAKE_TERMINAL = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


class Reported(NamedTuple):
    """What a demo in a pipe prints, and how long it takes without its pauses."""

    text: str
    seconds: float


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Reported:
    temporary, begun = tmp_path_factory.mktemp("demo"), time.monotonic()
    done = play("--fast", temporary=temporary, RELIGHT_HINTS="0")
    assert (done.returncode, done.stderr) == (0, "")
    assert list(temporary.iterdir()) == []
    return Reported(done.stdout, time.monotonic() - begun)


def test_it_fits_eighty_columns_and_has_no_colour_in_a_pipe(reported: Reported) -> None:
    for line in reported.text.splitlines():
        assert cells(line) <= 80, line
        assert line == line.rstrip()
        assert line.isprintable()


def test_it_tells_the_story_in_order(reported: Reported) -> None:
    locations = [
        reported.text.index(text)
        for text in (
            "1  The agent starts",
            "send_mail fixed (once)",
            "2  kill -9",
            "mails sent so far, counted outside: 1",
            "3  What most loops do now",
            "mails sent: 2",
            "4  With relight",
            "model calls repeated: 0    mails sent: 1",
            "5  Changed your mind?  relight rewind demo@9 --files; relight undo demo",
            "byte for byte: 3 tests fail again",
            "byte for byte: 6 tests pass",
            "6  A flipped bit",
            "next   relight run -- python my_agent.py",
        )
    ]
    assert locations == sorted(locations)


def test_plain_mode_says_marks_in_words_and_needs_no_utf8(tmp_path: Path) -> None:
    done = play("--fast", temporary=tmp_path, ACCESSIBLE="1", PYTHONIOENCODING="ascii")
    lines = done.stdout.splitlines()
    assert done.stdout.isascii()
    assert lines[0] == "plain mode (from ACCESSIBLE)"
    assert "   step 14, tool: run_tests: ok, 6 passed" in lines
    assert "   model calls repeated: 0    mails sent: 1: ok" in lines
    assert all(cells(line) <= 80 for line in lines)


def test_a_seed_without_a_storm_is_a_mistake(tmp_path: Path) -> None:
    done = play("--seed", "1", temporary=tmp_path)
    assert done.returncode == 2
    assert "--seed belongs to --storm" in done.stderr


# -- on a terminal ----------------------------------------------------------------------------------------------


class Terminal:
    """A demo on a terminal of its own."""

    def __init__(self, temporary: Path, *arguments: str, **changes: str | None) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL + RELIGHT, "demo", *arguments],
            env=environment(temporary, **{"TERM": "xterm", "COLUMNS": "80"} | changes),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.text = ""

    def read_until(self, word: str, *, keys: bytes = b"", seconds: float = 60.0) -> None:
        """Read until a word was printed, pressing keys meanwhile; an empty word is the end."""
        deadline = time.monotonic() + seconds
        while not (word and word in self.text):
            assert time.monotonic() < deadline, self.text
            if keys:
                os.write(self._ours, keys)
            if not select.select([self._ours], [], [], 0.1)[0]:
                continue
            try:
                self.text += os.read(self._ours, 65536).decode()
            except OSError as error:
                assert error.errno == errno.EIO and not word, self.text
                return

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def close(self) -> None:
        os.close(self._ours)
        self.process.kill()
        self.process.wait()


def test_any_key_skips_a_pause_on_a_narrow_terminal_too(tmp_path: Path, reported: Reported) -> None:
    terminal = Terminal(tmp_path, COLUMNS="40")
    begun = time.monotonic()
    try:
        terminal.read_until("any key skips a pause")
        terminal.read_until("next ", keys=b"x")
        terminal.read_until("")
        assert terminal.process.wait(60) == 0
    finally:
        terminal.close()
    assert time.monotonic() - begun < max(25.0, 3 * reported.seconds), "its pauses alone are longer"
    assert "\x1b[2many key skips a pause\x1b[0m" in terminal.text
    assert "x" * 3 not in terminal.text, "keys are not echoed"
    assert all(cells(line) <= 40 for line in ESCAPE.sub("", terminal.text).splitlines())


@pytest.mark.parametrize("how", ["ctrl-c", "sigterm"])
def test_who_ends_it_finds_nothing_left(tmp_path: Path, how: str) -> None:
    terminal = Terminal(tmp_path)
    try:
        terminal.read_until("(once): running")
        assert len(players(tmp_path)) == 1, "the agent"
        if how == "ctrl-c":
            terminal.press(b"\x03")
        else:
            terminal.process.terminate()
        terminal.read_until("")
        assert terminal.process.wait(60) == 130
    finally:
        terminal.close()
    assert "Traceback" not in terminal.text
    assert list(tmp_path.iterdir()) == []
    assert players(tmp_path) == []


def test_when_the_demo_itself_is_killed_its_processes_end(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    try:
        terminal.read_until("(once): running")
        os.kill(terminal.process.pid, signal.SIGKILL)
        wait_for(lambda: not players(tmp_path), "the end of the agent")
    finally:
        terminal.close()


def test_a_reader_that_goes_away_ends_it(tmp_path: Path) -> None:
    shell = f"{sys.executable} -c '{RELIGHT}' demo --fast | head -n 3"
    done = subprocess.run(
        ["sh", "-c", shell], env=environment(tmp_path), capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in done.stderr
    assert len(done.stdout.splitlines()) == 3
    wait_for(lambda: list(tmp_path.iterdir()) == [], "nothing left")
    assert players(tmp_path) == []
