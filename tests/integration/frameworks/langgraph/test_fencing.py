"""One writer a thread: a second one is refused before it does anything, and the next one need not wait."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, StateGraph
from langgraph.types import Command

import relight
from relight.errors import ThreadBusy, UnknownType
from relight.frameworks.langgraph import RelightSaver
from relight.testing.clock import ManualClock
from tests.integration.frameworks.conftest import Open
from tests.integration.frameworks.langgraph.graphs import Chat, asking, config, counting, put
from tests.support.figures import Figure
from tests.support.postgres_server import wait_for

STEPS = 30
WORKER = Path(__file__).with_name("worker.py")


def worker(store: Path, effects: Path, *more: str) -> subprocess.Popen[str]:
    root = Path(__file__).resolve().parents[4]
    return subprocess.Popen(
        [sys.executable, str(WORKER), str(store), str(effects), str(STEPS), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])},
    )


def _ended(process: subprocess.Popen[str]) -> str:
    said, errors = process.communicate(timeout=100)
    return said.strip() or errors[-2000:]


@pytest.mark.crash
@pytest.mark.guarantee("G8")
def test_of_two_processes_one_works_and_the_other_is_refused(tmp_path: Path, figure: Figure) -> None:
    store, effects = tmp_path / "r.db", tmp_path / "effects"
    relight.open(store).close()
    with worker(store, effects, "--pause-at", "5") as one, worker(store, effects, "--pause-at", "5") as two:
        try:
            ends = "one of them ends, while the other is in a step"
            wait_for(lambda: one.poll() is not None or two.poll() is not None, ends)
        finally:
            (tmp_path / "effects.go").touch()
        assert sorted([_ended(one), _ended(two)]) == ["ThreadBusy", "done"]
    lines = effects.read_text().split()
    assert lines == [str(number) for number in range(1, STEPS + 1)]
    figure("G8", f"LangGraph: two processes on one thread, {STEPS} steps, {len(lines)} effects, one ThreadBusy")


@pytest.mark.crash
@pytest.mark.guarantee("G8")
def test_a_worker_that_was_stopped_past_its_lease_wakes_up_refused(tmp_path: Path, figure: Figure) -> None:
    store, effects = tmp_path / "r.db", tmp_path / "effects"
    with worker(store, effects, "--pause-at", "5", "--lease", "0.5", "--stopped") as sleeper:
        try:
            wait_for((tmp_path / "effects.paused").exists, "it stands in its fifth step")
            os.kill(sleeper.pid, signal.SIGSTOP)
            with worker(store, effects, "--lease", "0.5", "--busy", "wait", "--resume") as second:
                assert _ended(second) == "done"
        finally:
            (tmp_path / "effects.go").touch()
            os.kill(sleeper.pid, signal.SIGCONT)
        assert _ended(sleeper) == "ThreadBusy"
    with relight.open(store) as rl:
        state = RelightSaver(rl).get_tuple(config("t"))
        assert state is not None
        assert [one.content for one in state.checkpoint["channel_values"]["messages"][1:]] == [
            str(number) for number in range(1, STEPS + 1)
        ]
        assert rl.history.verify("t").ok
    figure("G8", "LangGraph: a worker stopped past its lease wakes up, is refused, and the thread has no fork")


def test_a_second_run_in_the_same_program_is_refused_and_its_nodes_do_not_run(fresh: Open, tmp_path: Path) -> None:
    saver = RelightSaver(fresh())
    inside, go = threading.Event(), threading.Event()

    def pause(number: int) -> None:
        inside.set()
        assert go.wait(60)

    graph = counting(1, tmp_path / "first", pause).compile(checkpointer=saver)
    begun = partial(graph.invoke, {"messages": ["go"]}, config("t"), durability="sync")
    running = threading.Thread(target=begun)
    running.start()
    try:
        assert inside.wait(60)
        other = counting(1, tmp_path / "second").compile(checkpointer=saver)
        with pytest.raises(ThreadBusy, match="another run in this process"):
            other.invoke({"messages": ["me too"]}, config("t"))
        with pytest.raises(ThreadBusy):
            graph.update_state(config("t"), {"messages": ["behind its back"]})
        assert graph.get_state(config("t")).next == ("work",)
    finally:
        go.set()
        running.join(60)
    assert not (tmp_path / "second").exists()
    other.invoke({"messages": ["now"]}, config("t"))


def test_with_busy_wait_runs_of_one_thread_follow_one_another(location: Open, tmp_path: Path) -> None:
    savers = [RelightSaver(location(), busy="wait") for _ in range(3)]
    errors: list[BaseException] = []

    def work(saver: RelightSaver) -> None:
        try:
            counting(2, tmp_path / "x").compile(checkpointer=saver).invoke({"messages": ["hi"]}, config("t"))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(saver,)) for saver in savers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    state = savers[0].get_tuple(config("t"))
    assert state is not None
    said = [one.content for one in state.checkpoint["channel_values"]["messages"]]
    assert said.count("hi") == len(savers)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_an_interrupt_gives_the_lease_back_so_that_the_next_worker_can_answer(location: Open, durability: Any) -> None:
    first, second = location(), location()
    here = asking().compile(checkpointer=RelightSaver(first))
    there = asking().compile(checkpointer=RelightSaver(second))
    here.invoke({"messages": ["go"]}, config("t"), durability=durability)
    info = first.sessions.get("t")
    assert (info.status, info.reason) == ("waiting", "may I?")
    assert [one.value for one in there.get_state(config("t")).interrupts] == ["may I?"]
    done = there.invoke(Command(resume="yes"), config("t"), durability=durability)
    assert done["messages"][-1].content == "answer: yes"
    assert first.sessions.get("t").status == "completed"
    assert len(here.invoke({"messages": ["again"]}, config("t"), durability=durability)["messages"]) == 5


def test_a_run_that_fails_gives_the_lease_back(location: Open) -> None:
    graph = asking()
    graph.add_node("bad", lambda state: 1 / 0)
    graph.add_edge("a", "bad")
    first, second = location(), location()
    with pytest.raises(ZeroDivisionError):
        graph.compile(checkpointer=RelightSaver(first)).invoke({"messages": ["go"]}, config("t"))
    assert first.sessions.get("t").reason in ("ZeroDivisionError: division by zero", "may I?")
    with pytest.raises(ZeroDivisionError):
        graph.compile(checkpointer=RelightSaver(second)).invoke(None, config("t"))


def test_a_run_that_ended_unseen_does_not_hold_its_thread(location: Open, tmp_path: Path) -> None:
    """Stopped before a node, or by the limit of steps, or with a value that cannot be saved: nothing says so."""
    saver = RelightSaver(location())
    stopped = asking().compile(checkpointer=saver, interrupt_before=["a"])
    stopped.invoke({"messages": ["go"]}, config("t"))
    endless = counting(50, tmp_path / "x").compile(checkpointer=saver)
    with pytest.raises(GraphRecursionError):
        endless.invoke({"messages": ["go"]}, {**config("t"), "recursion_limit": 3})
    odd = StateGraph(Chat)
    odd.add_node("odd", lambda state: {"messages": [AIMessage("x", additional_kwargs={"odd": object()})]})
    odd.add_edge(START, "odd")
    with pytest.raises(UnknownType):
        odd.compile(checkpointer=saver).invoke({"messages": ["go"]}, config("t"))
    assert location().sessions.get("t").status == "failed"
    again = counting(1, tmp_path / "y").compile(checkpointer=RelightSaver(location()))
    again.invoke({"messages": ["go"]}, config("t"))


@pytest.mark.parametrize("stop", [{"interrupt_before": ["b"]}, {"interrupt_after": ["a"]}], ids=["before", "after"])
@pytest.mark.parametrize("holds", [False, True], ids=["free", "held"])
def test_a_call_that_returned_never_blocks_the_next_one(fresh: Open, stop: Any, holds: bool) -> None:
    """Nothing says that it stopped at a node; somebody may even keep the run's own objects."""
    saver, kept = RelightSaver(fresh()), list[Any]()
    graph = asking(kept.append if holds else None).compile(checkpointer=saver, **stop)

    async def once(thread: str) -> None:
        await graph.ainvoke({"messages": ["go"]}, config(thread))
        await graph.aupdate_state(config(thread), {"messages": ["by a person"]})
        await graph.ainvoke(None, config(thread))
        await graph.ainvoke(Command(resume="yes"), config(thread))

    async def main() -> None:
        for number in range(5):
            await once(f"same task {number}")
        for number in range(5):
            thread = f"a task each {number}"
            await asyncio.create_task(graph.ainvoke({"messages": ["go"]}, config(thread)))
            await asyncio.create_task(graph.ainvoke(None, config(thread)))

    asyncio.run(main())
    for _ in range(3):
        graph.invoke({"messages": ["go"]}, config("sync"))
        graph.update_state(config("sync"), {"messages": ["by a person"]})
    assert bool(kept) is holds


def test_a_run_that_was_left_behind_in_the_middle_is_refused_when_it_goes_on(fresh: Open, tmp_path: Path) -> None:
    saver = RelightSaver(fresh())
    graph = counting(4, tmp_path / "x").compile(checkpointer=saver)
    left = graph.stream({"messages": ["go"]}, config("t"), durability="sync")
    next(left)
    graph.invoke({"messages": ["anew"]}, config("t"))
    with pytest.raises(ThreadBusy):
        list(left)


def test_a_run_that_stopped_before_a_node_is_over_for_other_programs_soon(location: Open) -> None:
    here, there = RelightSaver(location(), lease_seconds=60.0), RelightSaver(location(), busy="wait")
    asking().compile(checkpointer=here, interrupt_before=["b"]).invoke({"messages": ["go"]}, config("t"))
    asking().compile(checkpointer=there).invoke(None, config("t"))
    assert location().sessions.get("t").reason == "may I?"


def test_a_program_that_saves_by_itself_holds_the_thread_for_its_lease() -> None:
    clock = ManualClock()
    with relight.open("memory:", clock=clock) as rl:
        one, two = RelightSaver(rl), RelightSaver(rl)
        at = put(one, config("t"), {"x": 1})
        with pytest.raises(ThreadBusy):
            put(two, at, {"x": 2}, 2)
        clock.advance(4)
        at = put(one, at, {"x": 2}, 2)  # renewed
        clock.advance(4)
        with pytest.raises(ThreadBusy):
            two.put_writes(at, [("x", 3)], "task")
        clock.advance(2)
        at = put(two, at, {"x": 3}, 3)
        with pytest.raises(ThreadBusy):
            put(one, at, {"x": 4}, 4)
        two.close()
        put(one, at, {"x": 4}, 4)


def test_closing_the_store_gives_leases_back(location: Open) -> None:
    first = location()
    saver = RelightSaver(first)
    at = put(saver, config("t"), {"x": 1})
    first.close()
    put(RelightSaver(location()), at, {"x": 2}, 2)
