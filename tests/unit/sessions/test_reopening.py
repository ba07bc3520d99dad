"""Options on a session that exists already: taken from the next step on and noted, or refused; never ignored."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.errors import Conflict, LeaseHeld, UsageError
from relight.sessions.shared import Write
from relight.values.step import Changes
from tests.support.simulation import Simulation

FIRST: dict[str, Any] = {
    "model": "m1",
    "provider": "openai",
    "task": "first",
    "labels": {"team": "a", "env": "dev"},
    "metadata": {"n": 1, "kept": True},
}
SECOND: dict[str, Any] = {
    "model": "m2",
    "provider": "anthropic",
    "task": "second",
    "labels": {"team": "b"},
    "metadata": {"n": 2},
}
MERGED: dict[str, Any] = {**SECOND, "labels": {"team": "b", "env": "dev"}, "metadata": {"n": 2, "kept": True}}


def begun(world: Simulation, **options: Any) -> None:
    with world.start().session("a", **options) as s:
        s.append({"role": "user", "content": "x"})


@pytest.mark.parametrize("what", SECOND)
def test_an_option_that_says_how_to_go_on_is_taken_and_noted(world: Simulation, what: str) -> None:
    begun(world, **FIRST)
    with world.restart().session("a", **{what: SECOND[what]}) as s:
        assert getattr(s._recorder.identity, what) == MERGED[what]
    rl = world.restart()
    assert getattr(rl.sessions.get("a"), what) == MERGED[what]
    assert what in [event.note.get("options", "") for event in rl.history.events("a") if event.started][-1]
    with rl.session("a", **{what: SECOND[what]}) as s:
        pass
    assert [event.note for event in rl.history.events("a") if event.started][-1] == {}, "what is as it was is no change"


def test_checkpoints_name_the_model_of_their_time_in_forks_too(world: Simulation) -> None:
    begun(world, model="m1")
    rl = world.restart()
    changed_at = rl.sessions.get("a").seq
    with rl.session("a", model="m2") as s:
        made = s.append({"role": "assistant", "content": "y"})
    assert made is not None
    assert made.model == "m2"
    assert {(one.seq > changed_at, one.model) for one in rl.history.checkpoints("a")} == {(False, "m1"), (True, "m2")}
    assert rl.history.fork(f"a@{changed_at}").model == "m1"
    assert rl.history.fork("a").model == "m2"


@pytest.mark.parametrize("what", ["key", "agent"])
def test_an_option_that_says_which_session_it_is_must_agree(world: Simulation, what: str) -> None:
    begun(world, **{what: "job-1"})
    before = world.restart().sessions.get("a")
    with pytest.raises(Conflict, match=f"its {what} is 'job-1', not 'job-2'"):
        world.start().session("a", **{**SECOND, what: "job-2"})
    assert world.start().sessions.get("a") == before
    options: list[dict[str, Any]] = [{what: "job-1"}, {what: "job-2", "resume": False}]
    for given in options:
        world.restart().session("a", **given).close()
    later: dict[str, Any] = {what: "job-3"}
    world.start().session("none").close()
    world.restart().session("none", **later).close()
    assert getattr(world.start().sessions.get("none"), what) == "job-3"


def test_who_is_refused_the_session_changes_nothing_about_it(world: Simulation, tmp_path: Path) -> None:
    rl = world.start()
    held = rl.session("a", model="m1")
    with pytest.raises(LeaseHeld):
        rl.session("a", model="m2", labels={"x": "y"}, workspace=tmp_path)
    info = rl.sessions.get("a")
    assert (info.model, info.labels, info.workspace) == ("m1", {}, {})
    held.complete()
    with rl.session("a", model="m2") as s:
        assert s.is_finished
    assert rl.sessions.get("a").model == "m2", "a finished one takes them for whatever follows"


def test_when_files_are_captured_stays_unless_it_is_said_again(tmp_path: Path) -> None:
    world, location = Simulation(tmp_path / "a.db"), tmp_path / "files"
    location.mkdir()
    begun(world, workspace=location, snapshot="turn")
    with world.restart().session("a", workspace=location) as s:
        assert s._recorder.identity.snapshot == "turn"
    with world.restart().session("a", snapshot="manual") as s:
        assert s._recorder.identity.snapshot == "manual"
    with world.restart().session("a") as s:
        assert s._recorder.identity.snapshot == "manual"
    with pytest.raises(UsageError):
        world.restart().session("a", snapshot="sometimes")


def test_a_session_that_a_framework_joins_takes_them_too(world: Simulation) -> None:
    def says(text: str) -> Write:
        return Write(changes=Changes(messages=[{"role": "user", "content": text}]))

    rl = world.start()
    rl.sessions.shared("j", agent="f", key="t1", labels={"a": "1", "b": "1"}).write(lambda _: says("x"))
    rl.sessions.shared("j", agent="f", key="t2", labels={"a": "2"}, task="other").write(lambda _: says("y"))
    info = rl.sessions.get("j")
    assert (info.labels, info.task, info.key) == ({"a": "2", "b": "1"}, "other", "t2")


@relight.tool(effect="once")
def noted(text: str) -> str:
    return text


def one_turn(s: relight.Session) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "noted", "arguments": '{"text": "x"}'}}
    for turn in s.turns([noted], prompt="go"):
        for asked in turn.reply({"role": "assistant", "content": None, "tool_calls": [call]}).calls:
            asked.run()
        return


USES: dict[str, Callable[[relight.Session], object]] = {
    "append": lambda s: s.append({"role": "user", "content": "x"}),
    "turn": one_turn,
    "once": lambda s: s.once("key", lambda: 1),
    "state": lambda s: s.state.update(number=[1]),
    "stream": lambda s: s.stream().__enter__().write("half"),
    "spawn": lambda s: s.spawn("kid").close(),
}


@pytest.mark.parametrize("use", USES)
def test_a_session_that_is_dropped_without_leaving_it_can_be_opened_at_once(use: str, tmp_path: Path) -> None:
    """As a signal handler drops it whose exception comes between the claim and the block. Python's garbage collector
    may be far from its next run."""
    with relight.open(tmp_path / "r.db") as rl:
        s = rl.session("a")
        try:
            gc.disable()
            USES[use](s)
            del s
            with rl.session("a") as again:
                assert again.attempt == 2
        finally:
            gc.enable()
