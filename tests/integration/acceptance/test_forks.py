"""fork(): a child writes nothing under its parent's lease, ends nothing of its parent's, and hangs on nothing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.errors import LeaseHeld, UsageError
from tests.integration.acceptance.conftest import Addresses
from tests.support.calls import call

KINDS = ("memory", "sqlite", "postgres", "redis")
BOUND_SECONDS = 30.0
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # that is what is tested


def forked(act: Callable[[], Any]) -> int:
    """A child that does this and ends; how it ended. 99: it hung."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            act()
            status = 0
        except SystemExit as end:
            status = int(end.code or 0)
        finally:
            os._exit(status)
    return ended(pid)


def ended(pid: int) -> int:
    deadline = time.monotonic() + BOUND_SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return 99


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize("kind", KINDS)
def test_a_forked_child_writes_nothing_and_ends_nothing_of_its_parents(
    kind: str, address_of: Addresses, tmp_path: Path
) -> None:
    with relight.open(address_of(kind, tmp_path)) as rl, rl.session("a") as s:
        s.append(user("parent"))

        def child() -> None:
            for act in (
                lambda: s.append(user("child")),
                lambda: s.complete("by the child"),
                lambda: s.checkpoint("mine"),
                lambda: s.once("k", lambda: "ran"),
            ):
                with pytest.raises(UsageError, match="from which this process was forked"):
                    act()
            assert [one["content"] for one in s.messages] == ["parent"]
            with pytest.raises(LeaseHeld):
                rl.session("a")
            s.__exit__(None, None, None)
            s.__exit__(ValueError, ValueError("of the child"), None)
            with rl.session("own") as own:  # the store itself may be used: its connections are the child's own
                own.append(user("child"))
                own.complete("done")
            rl.close()

        assert forked(child) == 0
        assert rl.sessions.get("a").status == "working"
        s.append(user("parent again"))
        assert [one["content"] for one in rl.history.load("a").messages] == ["parent", "parent again"]
        assert rl.history.verify("a").ok
        if kind != "memory":
            assert rl.sessions.get("own").status == "completed"


@pytest.mark.parametrize("kind", KINDS)
def test_a_child_that_unwinds_beside_writing_threads_hangs_on_nothing(
    kind: str, address_of: Addresses, tmp_path: Path, sample: Callable[..., int]
) -> None:
    stop = threading.Event()
    with relight.open(address_of(kind, tmp_path)) as rl:

        def write(number: int) -> None:
            with rl.session(f"t{number}") as s:
                while not stop.is_set():
                    s.append(user("x"))

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        try:
            with rl.session("mine") as s:
                s.append(user("x"))

                def unwind() -> None:
                    with rl, s:
                        rl.sessions.counts()
                        sys.exit(7)

                assert {forked(unwind) for _ in range(sample(4, proof=100))} == {7}
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert {info.status for info in rl.sessions.list()} == {"terminated"}
        assert rl.history.verify().ok


def test_a_childs_own_session_is_renewed_in_the_child(tmp_path: Path) -> None:
    with relight.open(tmp_path / "relight.db") as rl, rl.session("a", lease_seconds=0.6):

        def child() -> None:
            with rl.session("own", lease_seconds=0.6) as own:
                deadline = own._recorder.head.lease.deadline if own._recorder.head.lease else None
                bound = time.monotonic() + BOUND_SECONDS
                while time.monotonic() < bound:
                    record = rl.store.find(own.id)
                    assert record is not None
                    assert record.head is not None
                    assert record.head.lease is not None
                    if record.head.lease.deadline != deadline:
                        return
                    time.sleep(0.01)
                sys.exit(3)

        assert forked(child) == 0


def _in_child(s: relight.Session) -> str:
    try:
        s.append(user("child"))
    except UsageError as error:
        return str(error)
    return "written"


def test_multiprocessing_in_a_tool_leaves_its_session_to_the_parent(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    with relight.open(tmp_path / "relight.db") as rl, rl.session("a") as s:

        @relight.tool
        def work() -> str:
            read, write = context.Pipe(duplex=False)
            child = context.Process(target=lambda: write.send(_in_child(s)))
            child.start()
            assert read.poll(BOUND_SECONDS)
            child.join()
            return str(read.recv())

        @relight.tool
        def forks() -> str:
            pid = os.fork()
            if pid == 0:
                return "in the child"  # it goes on as if it were the parent
            assert ended(pid) == 9
            return "in the parent"

        pid = os.getpid()
        try:
            s.append(user("x"))
            s.append(call("c1", "work"))
            assert "from which this process was forked" in str(s.run_tool(s.pending_calls()[0], [work, forks]).result)
            s.append(call("c2", "forks"))
            assert s.run_tool(s.pending_calls()[0], [work, forks]).result == "in the parent"
        finally:
            if os.getpid() != pid:
                os._exit(9 if isinstance(sys.exc_info()[1], UsageError) else 10)
        assert rl.sessions.get("a").status == "working"
    assert os.getpid() == pid
