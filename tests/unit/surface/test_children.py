"""`s.spawn`, `s.children`, `s.join`: a child is begun once, found again by a restarted parent, and told as it is."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

import relight
import relight.aio
from relight.errors import ChildFailed, Conflict, HasForks, LeaseHeld, NotFound, NotResumable, UsageError
from relight.library.facade import Relight
from relight.ports import faults
from relight.sessions.session import Session
from relight.testing import ScriptedModel
from relight.values.policy import Retention
from tests.support.child_processes import wait_until
from tests.support.simulation import Simulation

HELLO = {"role": "user", "content": "hello"}
SPAWN = ("spawn.intended", "session.created", "resume.planned", "resume.claimed")
COMMIT = ("commit.enter", "commit.begun", "commit.written", "commit.committed", "commit.told")


class Died(BaseException):
    """The process ends here."""


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    faults.disarm()


def die_at(point: str, nth: int = 1) -> None:
    seen = 0

    def die(name: str) -> None:
        nonlocal seen
        seen += 1
        if seen == nth:
            raise Died(name)

    faults.arm(point, die)


def sessions(rl: Relight) -> dict[str | None, str]:
    return {one.name: one.status for one in rl.sessions.list()}


def test_spawn_opens_a_session_of_its_own_with_this_one_as_parent(world: Simulation) -> None:
    rl = world.start()
    with rl.session("research") as s, s.spawn("ada", task="find Ada", labels={"team": "a"}) as child:
        child.append(HELLO)
        child.complete({"born": 1815})
    info = rl.sessions.get("research.ada")
    assert (info.spawned_by, info.task, info.labels, info.parent) == (s.id, "find Ada", {"team": "a"}, None)
    with rl.session("research") as s, s.spawn("ada") as child:
        assert (child.is_finished, child.result, child.attempt) == (True, {"born": 1815}, 1)
        with pytest.raises(relight.RelightError):
            s.spawn("../x")


def test_an_option_that_spawn_does_not_know_is_refused_and_none_is_ignored(world: Simulation) -> None:
    with world.start().session("research") as s:
        with pytest.raises(TypeError, match="'buget'"):
            s.spawn("ada", buget=1)  # type: ignore[call-arg]
        assert s.children() == []
        with s.spawn("ada", task="look", budget_tokens=5) as child:
            assert (child.id, s.children()[0].session.task) == (s.children()[0].session.id, "look")

    async def main() -> None:
        async with relight.aio.open("memory:") as rl, rl.session("research") as s:
            with pytest.raises(TypeError, match="'buget'"):
                await s.spawn("ada", buget=1)  # type: ignore[call-arg]

    asyncio.run(main())


def test_spawn_waits_for_a_child_that_another_process_holds(tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl, rl.session("research") as s:
        held, released = s.spawn("ada"), threading.Event()

        def release() -> None:
            with held:
                assert released.wait(60)

        holder = threading.Thread(target=release)
        holder.start()
        with pytest.raises(LeaseHeld):
            s.spawn("ada", wait=0.05)
        released.set()
        with s.spawn("ada", wait=60) as child:
            assert child.attempt == 2
        holder.join(60)

        async def main() -> int:
            async with relight.aio.open(tmp_path / "r.db") as other, other.session("other") as parent:
                child = await parent.spawn("ada", wait=60)
                await child.close()
                return child.attempt

        assert asyncio.run(main()) == 1


@pytest.mark.parametrize(("point", "nth"), [*((one, 1) for one in SPAWN), *((one, 1) for one in COMMIT)])
def test_killed_anywhere_in_spawn_the_next_one_has_the_same_child(world: Simulation, point: str, nth: int) -> None:
    s = world.start().session("research")
    s.append(HELLO)
    die_at(point, nth)
    with pytest.raises(Died):
        s.spawn("ada")
    faults.disarm()
    rl = world.restart()
    s = rl.session("research")
    child = s.spawn("ada")
    child.append(HELLO)
    rl = world.restart()
    with rl.session("research") as s, s.spawn("ada") as again:
        assert (again.id, again.messages) == (child.id, [HELLO])
        assert [one.name for one in s.children()] == ["ada"]
    assert set(sessions(rl)) == {"research", "research.ada"}


def test_the_intent_is_in_the_parent_before_the_child_exists(world: Simulation) -> None:
    s = world.start().session("research")
    die_at("spawn.intended")
    with pytest.raises(Died):
        s.spawn("ada")
    rl = world.restart()
    assert set(sessions(rl)) == {"research"}
    assert [event.note for event in rl.history.events("research") if event.note] == [{"spawned": "research.ada"}]


def test_a_rewound_parent_finds_the_child_it_had(world: Simulation) -> None:
    rl = world.start()
    with rl.session("research") as s:
        start = s.append(HELLO)
        with s.spawn("ada") as child:
            child.complete(1)
    assert start is not None
    rl.history.rewind(start.id)
    with rl.session("research") as s, s.spawn("ada") as again:
        assert (again.id, again.result) == (child.id, 1)


def test_a_compacted_parent_knows_its_children(world: Simulation) -> None:
    rl = world.start()
    with rl.session("research") as s:
        s.spawn("ada").complete(1)
        s.replace([HELLO])
    fork = rl.history.fork("research", name="other")
    with rl.session(fork.id) as s:
        assert s.join("ada") == [1]


def test_a_fork_reads_what_is_completed_and_continues_a_fork_of_what_is_not(world: Simulation) -> None:
    rl = world.start()
    with rl.session("research") as s:
        s.spawn("done").complete(1)
        with s.spawn("open") as child:
            child.append(HELLO)
            child.once("paid", lambda: "receipt 1")
        s.append(HELLO)
    rl.history.fork("research", name="other")
    with rl.session("other") as s:
        assert s.join("done") == [1]
        with s.spawn("open") as own:
            assert (own.name, own.messages, own.id != child.id) == ("other.open", [HELLO], True)
            assert own.once("paid", lambda: pytest.fail("paid twice")) == "receipt 1"
            own.complete(2)
        assert [(one.name, one.result) for one in s.children()] == [("done", 1), ("open", 2)]
    assert rl.sessions.get(child.id).status == "terminated", "the original's child is as it was"


def test_join_returns_results_in_order_and_a_failure_as_it_is(world: Simulation) -> None:
    rl = world.start()
    with rl.session("research") as s:
        kids = [s.spawn(name) for name in ("a", "b", "c")]
        for number, child in enumerate(kids):
            child.complete(number)
        assert s.join(kids[2], "a", s.children()[1]) == [2, 0, 1]
        assert s.join() == [0, 1, 2]
        with pytest.raises(ValueError, match="no money"), s.spawn("d"):
            raise ValueError("no money")
        with pytest.raises(ChildFailed) as caught:
            s.join("a", "d")
        assert caught.value.children == (("d", "failed", "ValueError: no money"),)
        with pytest.raises(NotFound, match="nobody"):
            s.join("nobody")
        with rl.session("stranger") as other, pytest.raises(UsageError, match="not a child"):
            s.join(other)


def test_a_dead_child_is_told_as_dead_and_continued_by_spawn(world: Simulation) -> None:
    s = world.start().session("research")
    child = s.spawn("ada")
    child.append(HELLO)
    rl = world.restart()
    with rl.session("research") as s:
        with pytest.raises(ChildFailed) as caught:
            s.join("ada")
        assert [(name, status) for name, status, _ in caught.value.children] == [("ada", "terminated")]
        with s.spawn("ada") as again:
            assert (again.id, again.messages, again.attempt) == (child.id, [HELLO], 2)
            again.complete("found")
        assert s.join("ada") == ["found"]


def test_join_waits_for_a_child_that_runs_elsewhere(world: Simulation) -> None:
    rl, elsewhere = world.start(), world.start()
    s = rl.session("research")
    child = elsewhere.session("research.ada", parent="research")
    with pytest.raises(TimeoutError, match=r"research\.ada; nothing was stopped"):
        s.join("ada", timeout=3)
    with pytest.raises(LeaseHeld):
        s.spawn("ada")
    child.complete("there")
    assert s.join(child) == ["there"]


def test_join_raises_the_wait_of_a_child_that_only_the_parent_continues(world: Simulation) -> None:
    rl = world.start()
    with pytest.raises(relight.Waiting), rl.session("research") as s:
        with pytest.raises(relight.Waiting), s.spawn("ada") as child:
            child.ask("May I?")
        s.join("ada")
    assert (rl.sessions.get("research").status, rl.sessions.get("research.ada").status) == ("terminated", "waiting")
    rl.runs.send("research.ada", "yes")
    with rl.session("research") as s:
        with s.spawn("ada") as child:
            child.complete(child.ask("May I?"))
        assert s.join("ada") == ["yes"]


def research(rl: Relight, effect: Any, begun: list[str]) -> Any:
    """A parent whose tool is a sub-agent that asks a person."""
    with rl.session("boss") as s:

        @relight.tool(effect=effect, retries=0 if effect == "once" else 3)
        def look_up(topic: str) -> Any:
            begun.append(topic)
            with s.spawn(topic) as child:
                if not child.is_finished:
                    child.complete(child.ask("May I?"))
                return child.result

        return s.run(ScriptedModel([{"look_up": {"topic": "ada"}}, "told"]), tools=[look_up], prompt="go")


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
def test_a_tool_whose_child_waits_for_a_person_is_run_again_after_the_answer(world: Simulation, effect: str) -> None:
    rl, begun = world.start(), list[str]()
    with pytest.raises(relight.Waiting, match="May I"):
        research(rl, effect, begun)
    assert sessions(rl) == {"boss": "terminated", "boss.ada": "waiting"}
    rl.runs.send("boss.ada", "yes")
    assert research(rl, effect, begun) == "told"
    assert [one.result for one in rl.history.load("boss").calls] == ["yes"]
    assert begun == ["ada", "ada"]


def test_a_tool_that_may_not_run_again_and_whose_child_waits_is_told_to_its_author(world: Simulation) -> None:
    rl = world.start()
    with pytest.raises(UsageError, match=r"'look_up' .*boss\.ada is waiting .*May I") as raised:
        research(rl, "once", [])
    assert any("idempotent" in hint for hint in raised.value.hints)
    (call,) = rl.history.load("boss").calls
    assert (call.success, call.in_doubt) == (False, False)


def test_a_child_whose_parent_is_given_is_the_one_that_spawn_finds(world: Simulation) -> None:
    rl = world.start()
    s = rl.session("research")
    with rl.session("research.ada", parent=s) as child:
        child.complete(1)
    with rl.session("loose") as loose:
        loose.complete(2)
    assert s.spawn("ada").result == 1
    with pytest.raises(Conflict, match="no child of this one"):
        rl.session("loose", parent=s)
    with pytest.raises(UsageError, match="another name"):
        rl.session("research.ada", parent=s, resume=False)
    with pytest.raises(NotFound):
        rl.session("x", parent="nobody")


def test_a_removed_child_is_not_begun_again(world: Simulation) -> None:
    rl = world.start()
    with rl.session("research") as s:
        s.spawn("ada").complete(1)
        rl.sessions.remove("research.ada")
        with pytest.raises(NotResumable, match="it was removed"):
            s.spawn("ada")


def test_a_parent_begun_anew_has_children_of_its_own(world: Simulation) -> None:
    rl = world.start()
    with rl.session("research") as s, s.spawn("ada") as old:
        old.append(HELLO)
    with rl.session("research", resume=False) as s, s.spawn("ada") as new:
        assert (new.name, new.is_new, new.id != old.id) == ("research.ada", True, True)
    assert rl.sessions.get(old.id).name is None
    rl.session("research.bob").close()
    with rl.session("research") as s, pytest.raises(Conflict, match="no child of this one"):
        s.spawn("bob")


def test_children_of_a_completed_parent_can_be_read(world: Simulation) -> None:
    rl = world.start()
    with rl.session("research") as s:
        s.spawn("ada").complete(1)
        s.complete("all")
    with rl.session("research") as s:
        assert (s.join(), s.spawn("ada").result) == ([1], 1)
        with pytest.raises(relight.errors.Finished):
            s.spawn("late")
    assert set(sessions(rl)) == {"research", "research.ada"}


def test_spawn_from_threads_and_in_async() -> None:
    def work(child: Session, number: int) -> None:
        with child:
            child.append(HELLO)
            child.complete(number)

    with relight.open("memory:") as rl, rl.session("research") as s:
        kids = [s.spawn(f"kid-{number}") for number in range(8)]
        threads = [threading.Thread(target=work, args=one) for one in zip(kids, range(8), strict=True)]
        for thread in threads:
            thread.start()
        assert s.join(*kids, timeout=30) == list(range(8))
        for thread in threads:
            thread.join()

    async def main() -> list[Any]:
        async def child_of(s: relight.aio.AsyncSession, number: int) -> None:
            async with await s.spawn(f"kid-{number}") as child:
                await child.append(HELLO)
                await child.complete(number)

        async with relight.aio.open("memory:") as rl, await rl.session("research") as s:
            await asyncio.gather(*(child_of(s, number) for number in range(8)))
            assert len(await s.children()) == 8
            return await s.join(*(f"kid-{number}" for number in range(8)))

    assert asyncio.run(main()) == list(range(8))


def test_names_of_children_hold_no_secret(world: Simulation) -> None:
    rl = world.start()
    with rl.session("research") as s:
        with pytest.raises(UsageError, match="secret"):
            s.spawn("sk-ant-api03-" + "A1b2C3d4" * 6)
        assert b"A1b2C3d4" not in msgspec.json.encode([event.note for event in rl.history.events("research")])


def test_a_parent_is_removed_with_its_children_or_not_at_all(world: Simulation) -> None:
    rl = world.start()
    with rl.session("research") as s:
        with s.spawn("ada") as child:
            child.spawn("deep").complete(1)
            child.complete(1)
        s.complete(1)
    with pytest.raises(HasForks) as caught:
        rl.sessions.remove("research", with_forks=True)
    assert (caught.value.children, caught.value.hints) == (
        ("research.ada", "research.ada.deep"),
        ("relight rm research --with-children",),
    )
    assert rl.sessions.remove("research", with_children=True).names == ["research", "research.ada", "research.ada.deep"]
    assert sessions(rl) == {}


def test_retention_removes_a_parent_and_its_children_together(world: Simulation) -> None:
    rl = world.start()
    for name, is_over in (("done", True), ("open", False)):
        with rl.session(name) as s:
            for number in range(3):
                s.spawn(f"kid-{number}").complete(number)
            if is_over:
                s.complete()
    world.time.advance(8 * 86_400)
    assert sorted(rl.admin.sweep(Retention(max_sessions=2)).names) == ["done", "done.kid-0", "done.kid-1", "done.kid-2"]
    assert rl.admin.sweep().names == []
    with rl.session("open") as s:
        assert s.join() == [0, 1, 2]


def test_a_tree_has_children_and_forks_with_what_they_cost(world: Simulation) -> None:
    rl = world.start()
    with rl.session("research") as s:
        s.append(HELLO, usage={"cost": 1.0, "input_tokens": 1})
        for name in ("ada", "bob"):
            with s.spawn(name) as child:
                child.append(HELLO, usage={"cost": 2.0, "input_tokens": 1})
                world.time.advance(1)
    rl.history.fork("research", name="other")
    tree = [(one.session.name, one.how, one.depth) for one in rl.sessions.tree("research.bob")]
    assert tree == [
        ("research", None, 0),
        ("research.ada", "child", 1),
        ("research.bob", "child", 1),
        ("other", "fork", 1),
    ]
    assert rl.sessions.get("research").cost_tree == 5.0
    assert {one.cost_tree for one in rl.sessions.list()} == {None}, "a part of the sum is not told as all of it"
    assert [one.name for one in rl.sessions.list(spawned_by="research")] == ["research.bob", "research.ada"]


def test_a_child_for_a_worker_is_waited_for_while_it_is_queued(world: Simulation) -> None:
    rl = world.start()
    with rl.session("research") as s:
        made = rl.queues.submit(["true"], name="research.ada", parent="research", directory="/")
        assert (made.spawned_by, s.children()[0].status) == (s.id, "queued")
        with pytest.raises(TimeoutError):
            s.join("ada", timeout=5)
        with pytest.raises(Conflict):
            rl.queues.submit(["true"], name="research.ada", parent="research", directory="/")


def test_a_bundle_of_a_child_keeps_its_parent(world: Simulation, tmp_path: Path) -> None:
    rl = world.start()
    with rl.session("research") as s, s.spawn("ada") as child:
        child.complete(1)
    rl.history.export("research.ada", tmp_path / "ada.relight")
    with relight.open(tmp_path / "other.db") as other:
        other.history.import_(tmp_path / "ada.relight")
        assert other.sessions.get("research.ada").spawned_by == s.id
        assert [one.how for one in other.sessions.tree("research.ada")] == [None], "its parent is not there"


def _has_begun(rl: Relight, name: str) -> bool:
    found = rl.sessions.find(name)
    return found is not None and found.message_count > 0


def test_stop_with_its_tree_ends_the_children_too(tmp_path: Path) -> None:
    program = (
        "import relight, sys, time\n"
        "with relight.open(sys.argv[1]) as rl, rl.session(sys.argv[2], parent=sys.argv[3] or None) as s:\n"
        "    s.append({'role': 'user', 'content': 'x'})\n"
        "    time.sleep(60)\n"
    )
    store, running = str(tmp_path / "relight.db"), []
    with relight.open(store) as rl:
        for name, parent in (("research", ""), ("research.ada", "research")):
            running.append(subprocess.Popen([sys.executable, "-c", program, store, name, parent]))
            wait_until(name, partial(_has_begun, rl, name))
        stopped = rl.runs.stop("research", tree=True)
        assert stopped.below == [rl.sessions.get("research.ada").id]
        assert [one.wait(30) is not None for one in running] == [True, True]
        assert set(sessions(rl).values()) == {"terminated"}
        with pytest.raises(Conflict, match="nor a child of it"):
            rl.runs.stop("research", tree=True)
