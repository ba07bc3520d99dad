"""`relight.session(name, store=, wait=)`: one shared handle for a process and store."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import relight
from relight import aio
from relight.errors import Finished, LeaseHeld, UsageError
from relight.shared_handles import HANDLES
from relight.testing import ScriptedModel


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RELIGHT_STORE", str(tmp_path / "r.db"))
    return tmp_path / "r.db"


@pytest.fixture(autouse=True)
def closed() -> object:
    yield
    HANDLES.close()


def said(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_a_session_needs_no_handle_and_all_share_one(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with relight.session("a") as s:
        s.append(said("one"))
    with relight.session("a") as s:
        assert len(s.messages) == 1
    monkeypatch.chdir(store.parent)
    handles = {id(HANDLES.get(one)) for one in (None, store, "r.db", f"sqlite:///{store}", f"sqlite:///{store.name}")}
    assert len(handles) == 1
    with relight.session("a", store=store.parent / "other.db") as s:
        assert s.is_new
    with pytest.raises(TypeError, match="agnet"):
        relight.session("a", agnet="x")  # type: ignore[call-arg]


def test_threads_that_come_first_together_open_one_store(store: Path) -> None:
    barrier, found = threading.Barrier(8), list[int]()

    def look() -> None:
        barrier.wait(60)
        found.append(id(HANDLES.get(None)))

    threads = [threading.Thread(target=look) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert len(found) == 8 and len(set(found)) == 1


def test_a_forked_child_has_a_handle_of_its_own(store: Path) -> None:
    with relight.session("a") as s:
        s.append(said("parent"))
        mine = HANDLES.get(None)
        pid = os.fork()
        if pid == 0:
            try:
                with relight.session("b") as t:
                    t.append(said("child"))
                os._exit(0 if HANDLES.get(None) is not mine else 3)
            except BaseException:
                os._exit(4)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        s.append(said("parent again"))
    assert len(mine.history.load("a").messages) == 2 and len(mine.history.load("b").messages) == 1


def test_the_handle_is_closed_at_exit_and_what_was_said_is_there(store: Path) -> None:
    program = "import relight\nwith relight.session('a') as s: s.append({'role': 'user', 'content': 'x'})"
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=60)
    assert not Path(f"{store}-wal").exists(), "closed, not abandoned"
    with relight.session("a") as s:
        assert len(s.messages) == 1


def test_wait_is_for_a_session_that_somebody_else_holds(store: Path) -> None:
    with relight.session("a"):
        begun = time.monotonic()
        with pytest.raises(LeaseHeld) as refused:
            relight.session("a", wait=0.2)
        assert 0.15 <= time.monotonic() - begun < 60
    assert "this process" in str(refused.value) and "close()" in refused.value.hints[0]
    held = relight.session("a")
    closer = threading.Timer(0.2, held.close)
    closer.start()
    with relight.session("a", wait=30) as s:
        assert s.attempt == 3
    closer.join()
    for wrong in (-1, "soon", float("nan"), True):
        with pytest.raises(UsageError, match="number of seconds"):
            relight.session("a", wait=wrong)  # type: ignore[arg-type]


def complete(s: relight.Session) -> None:
    s.complete("done")


def run_once(s: relight.Session) -> None:
    s.run(ScriptedModel(["Done."]), prompt="Do it")


@pytest.mark.parametrize("change", ["set", "inside", "delete"])
@pytest.mark.parametrize("end", [complete, run_once])
def test_state_that_is_set_after_the_end_is_never_lost_without_a_word(
    store: Path, end: Callable[[relight.Session], None], change: str
) -> None:
    def late(s: relight.Session) -> None:
        if change == "set":
            s.state["rating"] = 5
        elif change == "inside":
            s.state["pages"].append(2)
        else:
            del s.state["pages"]

    def program() -> None:
        with relight.session("a") as s:
            s.state["pages"] = [1]
            end(s)
            late(s)

    with pytest.raises(Finished) as refused:
        program()
    named = "rating" if change == "set" else "pages"
    assert f"s.state['{named}']" in refused.value.evidence[0] and "s.turns" in refused.value.hints[0]
    with pytest.raises(Finished), relight.session("a") as s:  # opened to set it, and nothing else
        assert s.is_finished and dict(s.state) == {"pages": [1]}
        late(s)


def test_a_program_that_sets_state_before_its_run_can_be_started_again(store: Path) -> None:
    for start in range(3):
        with relight.session("a") as s:
            s.state["start"] = start
            run_once(s)
            assert list(s.state) and s.result == "Done."
        with relight.session("a") as s:
            assert dict(s.state) == {"start": 0}, "reading is no change"


def test_a_loop_of_ones_own_that_sets_its_state_again_can_be_started_again(store: Path) -> None:
    """It left by Finished, for state that was saved as it is."""
    for _ in range(3):
        with relight.session("a") as s:
            s.state["url"] = {"of": ["a", 1, None]}
            if not s.is_finished:
                s.complete("done")


def test_an_exception_is_not_replaced_by_state_that_is_not_saved(store: Path) -> None:
    with pytest.raises(KeyError), relight.session("a") as s:
        s.complete("done")
        s.state["late"] = 1
        raise KeyError("mine")


def test_a_waiting_session_says_what_to_do_with_it(store: Path) -> None:
    with relight.session("a") as s:
        with pytest.raises(relight.Waiting):
            s.ask("Really?")
        with pytest.raises(Finished) as refused:
            s.append({"role": "user", "content": "on"})
    assert refused.value.hints == ("leave the block, and open it again after the answer: relight show a",)


def test_wait_keeps_no_event_loop_and_no_store_call_waiting(store: Path) -> None:
    async def main() -> None:
        async with aio.open() as rl:
            held = await rl.session("a")
            waiting = [asyncio.ensure_future(rl.session("a", wait=30)) for _ in range(50)]
            await asyncio.sleep(0.1)
            assert (await rl.sessions.get("a")).status == "working"
            for task in waiting[1:]:
                task.cancel()
            await asyncio.wait(waiting[1:])
            await held.close()
            async with await waiting[0] as s:
                assert s.name == "a"

    asyncio.run(main())
