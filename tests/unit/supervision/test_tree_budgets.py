"""A budget covers the session's children and theirs: nobody of the tree begins a model call once it is used up."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.errors import ChildFailed, LimitReached, NotResumable, UsageError
from relight.library.facade import Relight
from tests.support.shell import Shell


class Model:
    """A model that asks for a tool without end, at 10 cents a reply; counts its calls over all sessions."""

    def __init__(self, usage: dict[str, Any] | None = None) -> None:
        self.calls, self._lock, self._usage = 0, threading.Lock(), usage or {"cost": 0.1}

    def __call__(self, messages: list[dict[str, Any]]) -> relight.Reply:
        with self._lock:
            self.calls += 1
            number = self.calls
        call = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": f'{{"n": {number}}}'}}
        return relight.Reply({"role": "assistant", "tool_calls": [call]}, self._usage)


@relight.tool(effect="pure")
def look(n: int) -> str:
    return str(n)


def test_children_in_threads_stop_at_the_budget_of_their_parent(tmp_path: Path) -> None:
    model = Model()

    def work(child: relight.Session) -> None:
        with child:
            child.run(model, tools=[look], prompt="go on")

    with relight.open(tmp_path / "r.db") as rl:
        with pytest.raises(ChildFailed), rl.session("plan", budget=1.0) as s:
            threads = [threading.Thread(target=work, args=(s.spawn(f"c{n}"),)) for n in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            # calls that were under way when it was reached are paid for: at most one in each of the others
            assert 10 <= model.calls <= 13
            calls = model.calls
            with s.spawn("late") as late:
                late.run(model, tools=[look], prompt="go on")
            assert model.calls == calls
            s.join()
        for name in ("plan.c0", "plan.late"):
            info = rl.sessions.get(name)
            assert info.status == "halted" and "budget of plan reached" in (info.reason or "")
            assert info.failure is not None and info.failure.fields["cure"] == "rl.session('plan', budget=N)"
        plan = rl.sessions.get("plan")
        assert plan.status == "halted"
        assert plan.reason == f"budget reached: ${model.calls / 10:.2f} of $1.00, with its children"
        told = {one.code: one.cure for one in rl.runs.plan("plan.late").reasons}
        assert told["budget_reached"] == "rl.session('plan', budget=N)"
        with rl.session("plan", budget=2.0) as s, s.spawn("late") as late:
            late.run(model, tools=[look], prompt="go on")
        assert model.calls == 20, "a higher budget of the parent lets its children continue"


def test_children_in_tasks_stop_at_a_budget_of_tokens_two_levels_above() -> None:
    model = Model({"input_tokens": 10})

    async def work(child: relight.aio.AsyncSession) -> None:
        async with child:
            await child.run(model, tools=[look], prompt="go on")

    async def main() -> None:
        async with relight.aio.open("memory:") as rl, rl.session("plan", budget_tokens=100) as s:
            async with await s.spawn("half") as half:
                below = [await half.spawn(f"c{n}") for n in range(3)]
                await asyncio.gather(*map(work, below))
                infos = [(await rl.sessions.get(f"plan.half.c{n}")) for n in range(3)]
                assert {one.status for one in infos} == {"halted"}
                assert all("token budget of plan reached" in (one.reason or "") for one in infos)
                await half.run(model, tools=[look], prompt="go on")
            assert (await rl.sessions.get("plan.half")).status == "halted"

    asyncio.run(main())
    assert 10 <= model.calls <= 12


@pytest.fixture
def rl() -> Any:
    with relight.open("memory:") as one:
        yield one


def test_a_loop_of_its_own_is_stopped_before_its_next_call_by_what_others_spent(rl: Relight) -> None:
    with rl.session("plan", budget=1.0) as s, s.spawn("own") as own, s.spawn("other") as other:
        own.append({"role": "assistant", "content": "calls a tool"}, usage={"cost": 0.5})
        with pytest.raises(LimitReached, match="budget of plan reached"):
            other.append({"role": "assistant", "content": "dear"}, usage={"cost": 0.5})
        with pytest.raises(LimitReached, match="budget of plan reached") as refused:
            own.append({"role": "user", "content": "the tool's result"})
        assert any("rl.session('plan', budget=N)" in hint for hint in refused.value.hints)
        assert [len(rl.history.load(name).messages) for name in ("plan.own", "plan.other")] == [2, 1], "all is kept"


def test_a_reply_that_nobody_can_price_is_no_way_around_a_budget_above(rl: Relight) -> None:
    with rl.session("plan", budget=1.0) as s:
        with s.spawn("silent") as child, pytest.raises(LimitReached, match="cannot be counted"):
            child.append({"role": "assistant", "content": "free?"})
        with pytest.raises(UsageError, match="no price is known"):
            s.spawn("unknown", model="model-of-tomorrow")


def test_a_time_limit_and_a_budget_of_its_own_stay_a_childs_own(rl: Relight) -> None:
    model = Model()
    with rl.session("plan", budget=1.0) as s:
        with s.spawn("small", budget=0.2) as small:
            small.run(model, tools=[look], prompt="go on")
        assert (rl.sessions.get("plan.small").reason, model.calls) == ("budget reached: $0.20 of $0.20", 2)
        s.append({"role": "assistant", "content": "the rest"}, usage={"cost": 0.7})
        with pytest.raises(LimitReached, match=r"budget reached: \$1.00 of \$1.00, with its children"):
            s.append({"role": "assistant", "content": "the rest"}, usage={"cost": 0.1})


def test_a_command_below_a_budget_that_is_used_up_is_not_begun(tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        made = rl.session("plan", budget=1.0)
        early = rl.queues.submit(["true"], name="plan.early", parent="plan", directory=str(tmp_path))
        with made as s, pytest.raises(LimitReached):
            s.append({"role": "assistant", "content": "all"}, usage={"cost": 1.0})
        with pytest.raises(LimitReached, match=r"budget of plan reached: \$1.00 of \$1.00"):
            rl.queues.submit(["true"], name="plan.job", parent="plan", directory=str(tmp_path))
        assert rl.sessions.find("plan.job") is None
        with pytest.raises(NotResumable, match="budget of plan reached"):
            rl.runs.resume(early.id)
        assert rl.sessions.get(early.id).status == "queued", "a refused start changes nothing"


CHILD = """
import relight, sys
from pathlib import Path

with relight.open() as rl, rl.session(sys.argv[1]) as s:
    s.prompt("go on")
    for turn in range(8):
        with Path("asked").open("a") as file:
            file.write("x")
        s.append({"role": "assistant", "content": str(turn)}, usage={"cost": 0.4})
        s.append({"role": "user", "content": "more"})
"""
PARENT = """
import relight, subprocess, sys

with relight.open() as rl, rl.session("any") as s:
    for number in range(3):
        subprocess.run([sys.executable, "child.py", f"c{number}"])
    s.append({"role": "assistant", "content": "what became of them?"}, usage={"cost": 0.4})
"""


def test_processes_below_a_supervised_program_stop_at_its_budget_and_the_commands_say_whose(shell: Shell) -> None:
    for name, text in (("child.py", CHILD), ("parent.py", PARENT)):
        (shell.directory / name).write_text(text)
    done = shell.run("run", "--name", "plan", "--budget", "1", "--", sys.executable, "parent.py")
    assert (shell.directory / "asked").read_text() == "xxx", "the third reply reaches it; nobody is asked again"
    plan, first, last = (shell.json("show", name) for name in ("plan", "c0", "c2"))
    assert (plan["status"], plan["reason"]) == ("halted", "budget reached: $1.60 of $1.00, with its children")
    assert (done.returncode, "allow more: relight resume plan --budget N" in done.stderr) == (6, True)
    for child in (first, last):
        assert (child["status"], child["failure"]["fields"]["cure"]) == ("halted", "relight resume plan --budget N")
        assert child["reason"] == "budget of plan reached: $1.20 of $1.00, with its children"
        assert child["attention"]["cure"] == "relight resume plan --budget N"
