"""The OpenAI Agents SDK's session: what its own sessions do, ours do on every store, and more."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest
from agents import Runner, SQLiteSession, set_tracing_disabled
from agents.extensions.memory import AdvancedSQLiteSession
from agents.memory import SessionSettings
from agents.memory.session import Session

import relight
from relight.errors import InDoubt, InvalidMessage, NotFound, NotResumable, UsageError
from relight.frameworks.openai_agents import RelightSession
from relight.library.facade import Relight
from relight.ports import faults
from relight.values.policy import Retention
from tests.integration.frameworks.conftest import Open
from tests.integration.frameworks.openai_agents.clerk import ASKS, ENDS, NAME, clerk
from tests.support.figures import Figure
from tests.support.shell import SOURCE

_T = TypeVar("_T")


@pytest.fixture(autouse=True)
def _untraced() -> None:
    set_tracing_disabled(True)


@pytest.fixture
def rl() -> Iterator[Relight]:
    with relight.open("memory:") as one:
        yield one


def run(awaited: Coroutine[Any, Any, _T]) -> _T:
    return asyncio.run(awaited)


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def reply(text: str) -> Any:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def talk(*texts: str) -> list[Any]:
    return [item for text in texts for item in (user(text), reply(f"re: {text}"))]


def test_any_sequence_of_verbs_gives_what_the_sdks_own_session_gives(fresh: Open) -> None:
    chance = Random(7)

    async def compare() -> None:
        theirs, ours = SQLiteSession("one"), RelightSession("one", fresh())
        assert isinstance(ours, Session)
        for number in range(60):
            verb = chance.choice(["add", "add", "add", "pop", "get", "clear" if number % 17 == 0 else "get"])
            if verb == "add":
                items = [user(f"{number}.{one}") for one in range(chance.randrange(4))]
                await theirs.add_items(items)
                await ours.add_items(items)
            elif verb == "pop":
                assert await ours.pop_item() == await theirs.pop_item()
            elif verb == "clear":
                await theirs.clear_session()
                await ours.clear_session()
            limit = chance.choice([None, None, 0, 1, 3, 1000, -1])
            assert await ours.get_items(limit) == await theirs.get_items(limit), (number, verb, limit)
        theirs.close()

    run(compare())


def test_branches_are_those_of_the_sdks_own_session(fresh: Open) -> None:
    async def play(session: Any) -> list[Any]:
        reported: list[Any] = []
        await session.add_items(talk("one", "two"))
        await session.add_items(talk("three", "at length " * 20))
        reported.append(await session.create_branch_from_turn(2, "second way"))
        reported.append(await session.get_items())
        await session.add_items(talk("other two"))
        reported.append(await session.create_branch_from_content("OTHER", "third way"))
        await session.add_items(talk("yet another"))
        for branch in ("main", "third way", None):
            turns = await session.get_conversation_turns(branch)
            reported.append(
                [(turn["turn"], turn["content"], turn["full_content"], turn["can_branch"]) for turn in turns]
            )
            reported.append(await session.get_items(2, branch_id=branch))
        found = await session.find_turns_by_content("t", "main")
        reported.append([(turn["turn"], turn["content"]) for turn in found])
        await session.switch_to_branch("main")
        reported.append(await session.pop_item())
        branches = await session.list_branches()
        reported.append({(b["branch_id"], b["message_count"], b["user_turns"], b["is_current"]) for b in branches})
        for call in (
            session.create_branch_from_turn(9),
            session.create_branch_from_turn(1, "third way"),
            session.create_branch_from_turn(1, " "),
            session.create_branch_from_content("nowhere"),
            session.switch_to_branch("unknown"),
            session.delete_branch("main"),
            session.delete_branch("unknown"),
        ):
            with pytest.raises(ValueError):
                await call
        await session.delete_branch("third way")
        with pytest.raises(ValueError):
            await session.create_branch_from_turn(1, "third way")
        reported.append(sorted(b["branch_id"] for b in await session.list_branches()))
        await session.clear_session()
        reported.append(
            (await session.get_items(), [b["branch_id"] for b in await session.list_branches() if b["user_turns"]])
        )
        return reported

    async def compare() -> None:
        theirs = AdvancedSQLiteSession(session_id="one", create_tables=True)
        expected, found = await play(theirs), await play(RelightSession("one", fresh()))
        theirs.close()
        assert found == expected

    run(compare())


def test_a_branch_stores_only_what_it_adds(rl: Relight) -> None:
    async def play() -> tuple[str, str]:
        session = RelightSession("one", rl)
        for number in range(20):
            await session.add_items([user(f"{number} " + os.urandom(500).hex())])
        await session.create_branch_from_turn(20)
        await session.add_items([user("another way")])
        return session.ref, "one"

    branch, main = run(play())
    assert rl.sessions.get(branch).size_bytes < rl.sessions.get(main).size_bytes / 10
    assert rl.sessions.get(branch).parent is not None


def test_limits_come_from_the_settings_unless_they_are_given(rl: Relight) -> None:
    session = RelightSession("one", rl, session_settings=SessionSettings(limit=2))
    run(session.add_items(talk("one", "two")))
    assert [item.get("role") for item in run(session.get_items())] == ["user", "assistant"]
    assert len(run(session.get_items(limit=3))) == 3


def test_a_conversation_is_a_session_like_any_other(location: Open, tmp_path: Path) -> None:
    rl = location()
    session = RelightSession("user@example.com/7", rl, labels={"team": "blue"})
    run(session.add_items([user("look")]))
    assert rl.sessions.get(session.ref).status == "working"
    run(session.add_items([reply("seen")]))
    info = rl.sessions.get(session.ref)
    assert (info.status, info.agent, info.key, info.said) == (
        "completed",
        "openai-agents",
        "user@example.com/7",
        "seen",
    )
    assert info.labels == {"team": "blue"} and info.message_count == 2
    assert rl.history.verify(info.id).ok
    rl.history.export(info.id, tmp_path / "talk.bundle")
    assert run(session.create_branch_from_turn(1)) == "branch_from_turn_1"
    assert set(rl.admin.sweep(Retention(finished_days=-1)).names) == {info.name, session.ref}
    assert run(session.get_items()) == []


def test_what_is_cleared_can_be_gone_back_to_and_what_is_deleted_is_gone(rl: Relight) -> None:
    session = RelightSession("one", rl)
    run(session.add_items(talk("hello")))
    kept = rl.history.checkpoints("one")[-1]
    run(session.clear_session())
    assert run(session.get_items()) == []
    rl.history.rewind(kept.id)
    assert run(session.get_items()) == talk("hello")
    run(session.create_branch_from_turn(1, "other"))
    assert run(session.delete()) is True
    assert list(rl.sessions.list()) == []
    with pytest.raises(NotFound):
        run(session.add_items([user("late")]))
    assert run(session.get_items()) == []
    run(session.add_items([user("a new one")]))
    assert run(session.get_items()) == [user("a new one")]
    assert run(RelightSession("nobody", rl).delete()) is False


def test_programs_that_add_at_once_lose_nothing(tmp_path: Path) -> None:
    locations = [relight.open(tmp_path / "r.db") for _ in range(3)]

    def add(me: int) -> None:
        session = RelightSession("one", locations[me])
        for number in range(10):
            run(session.add_items([user(f"{me}.{number}"), reply("ok")]))

    threads = [threading.Thread(target=add, args=(me,)) for me in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    items: list[Any] = run(RelightSession("one", locations[0]).get_items())
    asked = [item["content"] for item in items if item["role"] == "user"]
    assert sorted(asked) == sorted(f"{me}.{number}" for me in range(3) for number in range(10))
    assert [item.get("role") for item in items] == ["user", "assistant"] * 30
    for one in locations:
        one.close()


def test_who_is_cancelled_while_adding_knows_that_it_is_added(rl: Relight) -> None:
    session, gate = RelightSession("one", rl), threading.Event()

    def wait(point: str) -> None:
        gate.wait(60)

    async def cancelled() -> None:
        faults.arm("commit.enter", wait)
        task = asyncio.create_task(session.add_items([user("kept")]))
        for _ in range(3):
            await asyncio.sleep(0)
            task.cancel()
        assert not task.done()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert rl.history.load("one").messages == [user("kept")]

    try:
        run(cancelled())
    finally:
        faults.disarm()


def test_items_are_data_and_what_is_not_is_refused(rl: Relight) -> None:
    session = RelightSession("one", rl)
    odd: list[Any] = [{"role": "user", "content": "\ud83d"}, {"type": "x", "py/object": "os.system", "n": 2**80}]
    run(session.add_items(odd))
    assert run(session.get_items()) == odd
    no_json: Any = {"role": "user", "content": object()}
    with pytest.raises(InvalidMessage):
        run(session.add_items([no_json]))
    with pytest.raises(UsageError):
        run(session.add_items(["text"]))  # type: ignore[list-item]
    with pytest.raises(UsageError, match=r"relight\.open"):
        RelightSession("one", "r.db")  # type: ignore[arg-type]
    with rl.session("mine", agent="other") as s:
        s.append(user("hello"))
    with pytest.raises(NotResumable, match="a session of other"):
        run(RelightSession("mine", rl).add_items([user("intruder")]))


# -- a run that waits for a decision --------------------------------------------------------------------------


Act = Callable[[str, Path, Path], int]
KILLED = 9


@pytest.fixture(scope="module")
def act() -> Iterator[Act]:
    """What the clerk does in a process of its own; its wait status."""
    path = f"{SOURCE}:{Path(__file__).parents[4]}"
    process = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("clerk.py")],
        env={**os.environ, "PYTHONPATH": path, "RELIGHT_HINTS": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def do(what: str, store: Path, paid: Path) -> int:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"{what} {store} {paid}\n")
        process.stdin.flush()
        return int(process.stdout.readline())

    with process:
        yield do


@pytest.mark.crash
def test_an_interrupted_run_is_approved_and_goes_on_in_another_process(
    tmp_path: Path, act: Act, figure: Figure
) -> None:
    store, paid = tmp_path / "r.db", tmp_path / "paid"
    assert act("ask", store, paid) == KILLED
    with relight.open(store) as rl:
        info = rl.sessions.get(NAME)
        assert info.status == "waiting" and (info.question or "").startswith('approve pay: {"amount": 3} [c1 ')
        assert info.attention is not None and info.attention.cure == f"relight approve {NAME}"
        rl.runs.approve(NAME)
    assert act("go", store, paid) == 0
    assert paid.read_text() == "3\n"
    with relight.open(store) as rl:
        assert rl.sessions.get(NAME).status == "completed"
        kinds = [item.get("type", item.get("role")) for item in rl.history.load(NAME).messages]
        assert kinds == ["user", *["function_call", "function_call_output"] * 2, "message"]
        assert run(RelightSession(NAME, rl).load_run_state(clerk(paid))) is None
        assert "run_state" not in rl.history.load(NAME).state
    figure("G10", "openai-agents: a run killed while it waited, approved elsewhere: its tool ran once")


@pytest.mark.crash
def test_a_tool_that_was_approved_and_cut_off_is_in_doubt_and_is_not_run_again_in_silence(
    tmp_path: Path, act: Act, figure: Figure
) -> None:
    store, paid = tmp_path / "r.db", tmp_path / "paid"
    assert act("ask", store, paid) == KILLED
    assert act("die", store, paid) == KILLED
    assert paid.read_text() == "3\n"
    with relight.open(store) as rl:
        info = rl.sessions.get(NAME)
        assert (info.status, info.in_doubt) == ("terminated", 1)
        session = RelightSession(NAME, rl)
        [doubtful] = run(session.in_doubt())
        assert (doubtful.name, doubtful.id) == ("pay", "c1")
        state = run(session.load_run_state(clerk(paid)))
        with pytest.raises(InDoubt, match="c1"):
            run(session.save_run_state(state))
        rl.runs.settle(NAME, doubtful.id, result="paid 3, says the bank")
        assert run(session.load_run_state(clerk(paid))) is None
        result = run(Runner.run(clerk(paid, ENDS), "and now?", session=session))
        assert result.final_output == "All paid."
        assert "paid 3, says the bank" in str(run(session.get_items()))
        assert rl.sessions.get(NAME).status == "completed"
    assert paid.read_text() == "3\n"
    figure("G10", "openai-agents: killed inside an approved tool: told as in doubt, run once")


def test_of_two_programs_that_take_up_a_run_one_may_run_its_tool(location: Open, tmp_path: Path) -> None:
    async def play() -> None:
        rl = location()
        session, agent = RelightSession("one", rl), clerk(tmp_path / "paid", *ASKS, ENDS)
        await session.save_run_state(await Runner.run(agent, "pay", session=session))
        rl.runs.approve("one")
        one, other = RelightSession("one", location()), RelightSession("one", location())
        mine, theirs = await one.load_run_state(agent), await other.load_run_state(agent)
        await one.save_run_state(mine)
        await one.save_run_state(mine)
        with pytest.raises(InDoubt) as refused:
            await other.save_run_state(theirs)
        assert "relight settle one c1 --result TEXT" in refused.value.hints[0]
        assert mine is not None
        await Runner.run(agent, mine, session=one)
        assert await other.load_run_state(agent) is None

    run(play())
    assert (tmp_path / "paid").read_text() == "3\n"


def test_a_call_in_doubt_runs_again_only_when_a_person_says_so(rl: Relight, tmp_path: Path) -> None:
    async def play() -> None:
        session, agent = RelightSession("one", rl), clerk(tmp_path / "paid", *ASKS, ENDS)
        await session.save_run_state(await Runner.run(agent, "pay", session=session))
        rl.runs.approve("one")
        await session.save_run_state(await session.load_run_state(agent))
        session.close()  # as if it had died
        again = RelightSession("one", rl)
        assert [call.id for call in await again.in_doubt()] == ["c1"]
        state = await again.load_run_state(agent)
        with pytest.raises(InDoubt):
            await again.save_run_state(state)
        rl.runs.settle("one", "c1", retry=True)
        await again.save_run_state(state)
        assert state is not None
        await Runner.run(agent, state, session=again)

    run(play())
    assert (tmp_path / "paid").read_text() == "3\n" and rl.sessions.get("one").status == "completed"


def test_a_denied_call_is_not_run(rl: Relight, tmp_path: Path) -> None:
    async def play() -> str:
        session, agent = RelightSession("one", rl), clerk(tmp_path / "paid", *ASKS, ENDS)
        await session.save_run_state(await Runner.run(agent, "pay", session=session))
        rl.runs.deny("one")
        state = await session.load_run_state(agent)
        assert state is not None
        return str((await Runner.run(agent, state, session=session)).final_output)

    assert run(play()) == "All paid."
    assert not (tmp_path / "paid").exists()
    assert rl.sessions.get("one").status == "completed"


def test_a_run_that_is_given_up_waits_no_more(rl: Relight, tmp_path: Path) -> None:
    async def play() -> None:
        session, agent = RelightSession("one", rl), clerk(tmp_path / "paid", *ASKS)
        await session.save_run_state(await Runner.run(agent, "pay", session=session))
        assert rl.sessions.get("one").status == "waiting"
        await session.clear_run_state()
        assert await session.load_run_state(agent) is None
        assert rl.sessions.get("one").status == "completed"

    run(play())


def test_what_a_run_cost_is_counted_with_its_session(rl: Relight, tmp_path: Path) -> None:
    async def play() -> None:
        session = RelightSession("one", rl)
        result = await Runner.run(clerk(tmp_path / "paid", ENDS), "hello", session=session)
        result.context_wrapper.usage.input_tokens = 30
        result.context_wrapper.usage.output_tokens = 4
        await session.store_run_usage(result)

    run(play())
    assert (rl.sessions.get("one").usage.input_tokens, rl.sessions.get("one").usage.output_tokens) == (30, 4)
