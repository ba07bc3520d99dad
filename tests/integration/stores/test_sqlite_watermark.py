"""The watermark file beside a database: many threads at once, and platforms that lack a call."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import relight
from relight.stores.sqlite.connection.watermark import Watermark
from relight.stores.sqlite.store import SqliteStore
from relight.testing.clock import ManualClock
from relight.values.session import Head, Identity
from tests.support.threads import together

THREADS = 16


@pytest.fixture
def impatient() -> Iterator[None]:
    """Threads take turns as often as the interpreter lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("impatient")
def test_readers_and_writers_of_a_fresh_watermark_never_meet_the_wrong_map(
    tmp_path: Path, sample: Callable[..., int]
) -> None:
    for number in range(sample(30, proof=3_000, teeth=60)):
        watermark = Watermark(tmp_path / f"{number}.db")

        def act(thread: int, watermark: Watermark = watermark) -> None:
            sid = thread // 2 * 5_000 + 1  # so far apart that the file grows under them
            if thread % 2:
                watermark.write([(sid, 7)])
                assert watermark.seq(sid) == 7
            else:
                assert watermark.seq(sid) in (0, 7)
                assert watermark.sessions() >= 0

        together(THREADS, act)


@pytest.mark.usefixtures("impatient")
def test_first_sessions_of_a_fresh_store_from_many_threads_are_all_told(
    tmp_path: Path, sample: Callable[..., int]
) -> None:
    for number in range(sample(6, proof=200)):
        with relight.open(tmp_path / f"{number}.db") as rl:

            def act(thread: int, rl: relight.Relight = rl) -> None:
                with rl.session(f"s{thread}") as s:
                    s.append({"role": "user", "content": "x"})
                    s.complete("y")

            together(THREADS, act)
            assert rl.sessions.counts()["completed"] == THREADS


def test_a_connection_that_is_given_back_holds_no_snapshot(tmp_path: Path) -> None:
    """Else its next user sees a head from before the newest commits, and takes what was acknowledged for lost."""
    store = SqliteStore(tmp_path / "a.db", ManualClock())
    with store._readers.reading() as kept:
        kept.execute("SELECT 1 FROM sqlite_schema UNION ALL SELECT 2").fetchone()  # a row is left
    identity = Identity(id="0" * 32, created_us=1)
    store.create(identity, Head(session=identity.id))
    found = store.find(identity.id)
    assert found is not None and found.head is not None
    store.close()


LACKING = """
import os, sys, time
for name in ("posix_fallocate", "fdatasync", "posix_fadvise", "memfd_create", "pidfd_open", "sched_getaffinity",
             "copy_file_range", "eventfd", "O_TMPFILE", "O_PATH", "splice", "listxattr", "getxattr", "setxattr",
             "removexattr", "getrandom", "unshare", "setns"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("CLOCK_BOOTTIME",):
    if hasattr(time, name):
        delattr(time, name)
import relight
with relight.open(sys.argv[1]) as rl, rl.session("x", workspace=sys.argv[2]) as s:
    s.append({"role": "user", "content": "x"})
    s.run(lambda messages: {"role": "assistant", "content": "done"})
    print(s.result)
"""


def test_a_first_session_needs_no_call_that_only_linux_has(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LACKING, str(tmp_path / "relight.db"), str(tmp_path / "files")]
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a").write_text("a", encoding="utf-8")
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.returncode) == ("done\n", 0), ended.stderr


def test_without_preallocation_the_watermark_still_notices_a_lost_tail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    watermark = Watermark(tmp_path / "relight.db")
    watermark.write([(1, 3), (20_000, 4)])
    watermark.close()
    assert (watermark.seq(1), watermark.seq(20_000), watermark.sessions()) == (3, 4, 20_000)
