"""G3: an error is never acknowledged. EIO, ENOSPC at any write or sync, a full disk: an error of ours, and what was
acknowledged before is whole.

The calls of a real process are failed one after another with strace; the child tells each seq it was given, and what
it was told instead. After the error it tries again: it goes on, or is refused clearly.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.errors import RelightError, StoreFull
from tests.support import mounting
from tests.support.child_processes import ROOT, lines_of
from tests.support.figures import Figure

pytestmark = pytest.mark.crash
APPENDS = 6


def inject(
    strace: str, call: str, error: str, nth: int, store: Path, reported: Path
) -> subprocess.CompletedProcess[str]:
    """The program under strace, with the nth such call of it failed."""
    source = str(Path(relight.__file__).parent.parent)  # the real interpreter does not read an editable install's .pth
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join([*given, source, str(ROOT)]).strip(os.pathsep)
    fault = f"inject={call}:error={error}:when={nth}"
    arguments = [
        os.path.realpath(sys.executable),
        "-m",
        "tests.support.programs.append_with_retries",
        str(store),
        str(reported),
        str(APPENDS),
    ]
    watched = ["-P", str(store), "-P", f"{store}-wal", "-e", f"trace={call}", "-e", fault]
    return subprocess.run(
        [strace, "-f", "-qq", "-o", "/dev/null", *watched, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([path, *site_packages()]), "RELIGHT_HINTS": "0"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def site_packages() -> list[str]:
    """The real interpreter does not know the environment that a link to it stands in."""
    return [one for one in sys.path if one.endswith("site-packages")]


def check(store: Path, reported: Path) -> tuple[int, int]:
    """How many appends were acknowledged and how many were refused; all of the former are there, in order, once."""
    lines = [line.split(" ", 2) for line in lines_of(reported)]
    acknowledged = [(int(seq), number) for kind, seq, number in lines if kind == "ok"]
    with relight.open(store) as rl:
        if rl.sessions.find("a") is None:
            assert acknowledged == []
            return 0, len(lines)
        steps = {event.seq: event.messages for event in rl.history.events("a")}
        for seq, number in acknowledged:
            assert [message["content"] for message in steps.get(seq, ())] == [number], f"{seq} is acknowledged and lost"
        contents = [message["content"] for message in rl.history.load("a").messages]
        assert len(contents) == len(set(contents)), "a step given again after an error is doubled"
        numbers = [number for _, number in acknowledged]
        assert [one for one in contents if one in numbers] == numbers
        assert rl.history.verify().ok
        with rl.session("a") as s:
            s.append({"role": "user", "content": "goes on"})
    return len(acknowledged), sum(kind == "no" for kind, _, _ in lines)


POINTS = {
    "fdatasync": [("EIO", nth) for nth in (2, 3, 4, 6, 9, 10)] + [("ENOSPC", nth) for nth in (3, 7)],
    "pwrite64": [("EIO", nth) for nth in (1, 8, 16, 21, 27, 44, 63)] + [("ENOSPC", nth) for nth in (3, 15, 24, 40)],
}
"""of about 11 and 70 calls in a life"""
MAX = {"fdatasync": 16, "pwrite64": 90}


@pytest.mark.guarantee("G3")
@pytest.mark.parametrize("call", POINTS)
def test_a_failed_write_or_sync_is_an_error_and_loses_nothing(
    program: Callable[[str], str], tmp_path: Path, call: str, sample: Any, figure: Figure
) -> None:
    strace = program("strace")
    every = [(error, nth) for error in ("EIO", "ENOSPC") for nth in range(1, MAX[call])]
    points = {0: POINTS[call], 1: every, 2: POINTS[call][1:3]}[sample(0, proof=1, teeth=2)]
    counts = Counter[str]()
    for number, (error, nth) in enumerate(points):
        store, reported = tmp_path / f"{number}.db", tmp_path / f"{number}.told"
        with relight.open(store) as rl:
            rl.session("a").close()
        run = inject(strace, call, error, nth, store, reported)
        assert run.returncode in (0, 5), f"{call} {error} {nth}: {run.stderr}"
        assert "Traceback" not in run.stderr, run.stderr
        acknowledged, refused = check(store, reported)
        counts["acknowledged"] += acknowledged
        counts["refused"] += refused
        counts["noticed"] += bool(refused or run.returncode)
    assert counts["noticed"], "no injected error was noticed by anybody: nothing was tested"
    figure(
        "G3",
        f"{len(points)} errors injected into {call}, {counts['noticed']} reached a caller,"
        f" {counts['acknowledged']} steps acknowledged, 0 of them lost, 0 doubled",
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """200 kB of disk."""
    with mounting.small_disk(tmp_path / "small", "600k") as location:
        yield location


@pytest.mark.guarantee("G3")
def test_a_full_disk_refuses_what_does_not_fit_and_keeps_what_did(small_disk: Path, figure: Figure) -> None:
    acknowledged: list[str] = []
    with relight.open(small_disk / "relight.db") as rl:
        s = rl.session("a")
        with pytest.raises(StoreFull) as caught:
            for number in range(10_000):
                text = f"{number} " + os.urandom(700).hex()
                s.append({"role": "user", "content": text})
                acknowledged.append(text)
        assert "no space left" in str(caught.value)
        for _ in range(3):
            with pytest.raises(RelightError):
                s.append({"role": "user", "content": os.urandom(40_000).hex()})
        assert [message["content"] for message in s.messages] == acknowledged
        assert [message["content"] for message in rl.history.load("a").messages] == acknowledged
    mounting.resize(small_disk, "4m")
    with relight.open(small_disk / "relight.db") as rl:
        assert [message["content"] for message in rl.history.load("a").messages] == acknowledged
        assert rl.history.verify().ok
        rl.admin.release("a")
        with rl.session("a") as s:
            s.append({"role": "user", "content": "goes on"})
    figure("G3", f"a disk of 600 kB filled: {len(acknowledged)} steps acknowledged and kept, the next refused")
