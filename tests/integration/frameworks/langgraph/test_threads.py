"""Threads are sessions: deleted they stay deleted, copied and pruned they are whole, and every verb knows them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

import relight
from relight.errors import HasForks, NotResumable, ThreadGone, UsageError
from relight.frameworks.langgraph import RelightSaver
from relight.ports import faults
from relight.values.policy import Retention
from tests.integration.frameworks.conftest import Open
from tests.integration.frameworks.langgraph.graphs import asking, checkpoint, config, conversation, counting, put
from tests.support.figures import Figure

CANARY = "canary-7f3a9"


def ids(saver: Any, thread: str) -> list[str]:
    return [one.checkpoint["id"] for one in saver.list(config(thread))]


def _id(at: Any) -> str:
    return str(at["configurable"]["checkpoint_id"])


# -- deleted threads stay deleted ----------------------------------------------------------------------------------


def test_a_late_write_does_not_bring_a_deleted_thread_back(fresh: Open) -> None:
    rl = fresh()
    saver = RelightSaver(rl)
    first, last = conversation(saver, "t", 2)
    saver.delete_thread("t")
    late: list[Callable[[], Any]] = [
        lambda: saver.put_writes(last, [("messages", ["late"])], "task"),
        lambda: put(saver, last, {"messages": ["late"]}, 3),
        lambda: saver.put_writes(first, [("messages", ["late"])], "task"),
        lambda: saver.put(
            config("t", ns="child"), checkpoint({}), {"parents": {"": first["configurable"]["checkpoint_id"]}}, {}
        ),
    ]
    for write in late:
        with pytest.raises(ThreadGone):
            write()
        assert saver.get_tuple(config("t")) is None
        assert ids(saver, "t") == []
        assert list(rl.sessions.list(agent="langgraph")) == []
    begun = put(saver, config("t"), {"messages": ["anew"]})
    assert ids(saver, "t") == [begun["configurable"]["checkpoint_id"]]
    with pytest.raises(ThreadGone):
        saver.put_writes(last, [("messages", ["late"])], "task")
    put(saver, begun, {"messages": ["anew", "and on"]}, 2)


def test_another_program_that_still_works_on_it_is_refused_too(location: Open) -> None:
    here, there = RelightSaver(location()), RelightSaver(location())
    at = conversation(here, "t", 2)[-1]
    there.delete_thread("t")
    with pytest.raises(ThreadGone):
        here.put_writes(at, [("messages", ["late"])], "task")
    with pytest.raises(ThreadGone):
        put(here, at, {"messages": ["late"]}, 3)
    assert RelightSaver(location()).get_tuple(config("t")) is None
    stranger = RelightSaver(location())  # to it this might be a write that comes before its checkpoint
    stranger.put_writes(at, [("messages", ["late"])], "task")
    assert stranger.get_tuple(config("t")) is None
    assert list(location().sessions.list()) == []


def test_writes_that_come_before_their_checkpoints_are_there_with_them(fresh: Open) -> None:
    """As whoever copies a history from another saver puts them in, oldest first."""
    source, rl = InMemorySaver(), fresh()
    saver = RelightSaver(rl)
    for at in conversation(source, "t", 4):
        source.put_writes(at, [("messages", [at["configurable"]["checkpoint_id"]]), ("x", 1)], "task", "path")
    history = [*source.list(config("t"))]
    parent = None
    for one in reversed(history):
        writes = [(channel, value) for _, channel, value in one.pending_writes or ()]
        saver.put_writes(one.config, writes, "task", "path")
        saver.put(config("t", parent), one.checkpoint, one.metadata, one.checkpoint["channel_versions"])
        parent = one.checkpoint["id"]
    for held in (saver, RelightSaver(rl)):
        found = [*held.list(config("t"))]
        assert [one.pending_writes for one in found] == [one.pending_writes for one in history]
        assert [one.checkpoint["channel_values"] for one in found] == [
            one.checkpoint["channel_values"] for one in history
        ]


def test_a_late_write_does_not_get_into_the_next_thread_of_the_same_id(location: Open) -> None:
    first = RelightSaver(location())
    late = conversation(first, "t", 2)[-1]
    first.delete_thread("t")
    at = conversation(first, "t", 2)[-1]
    first.close()
    for saver in (RelightSaver(location()), first):
        with pytest.raises(ThreadGone):
            saver.put_writes(late, [("messages", ["late"])], "task")
    first.prune(["t"])
    stranger = RelightSaver(location())
    stranger.put_writes(at, [("messages", ["in time"])], "task")
    found = stranger.get_tuple(config("t"))
    assert found is not None and found.pending_writes == [("task", "messages", ["in time"])]
    assert found.checkpoint["id"] == at["configurable"]["checkpoint_id"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_graph_that_runs_while_its_thread_is_deleted_ends_with_an_error(
    location: Open, tmp_path: Path, durability: Any
) -> None:
    saver, other = RelightSaver(location()), RelightSaver(location())
    inside, go = threading.Event(), threading.Event()
    failed: list[BaseException] = []

    def pause(number: int) -> None:
        inside.set()
        assert go.wait(60)

    def work() -> None:
        try:
            graph.invoke({"messages": ["go"]}, config("t"), durability=durability)
        except BaseException as error:
            failed.append(error)

    graph = counting(3, tmp_path / "effects", pause).compile(checkpointer=saver)
    running = threading.Thread(target=work)
    running.start()
    try:
        assert inside.wait(60)
        other.delete_thread("t")
    finally:
        go.set()
        running.join(60)
    assert [type(one) for one in failed] == [ThreadGone]
    assert other.get_tuple(config("t")) is None
    again = counting(1, tmp_path / "again").compile(checkpointer=saver)
    assert len(again.invoke({"messages": ["anew"]}, config("t"))["messages"]) == 2


def test_after_deletion_no_byte_is_left(tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        saver = RelightSaver(rl)
        conversation(saver, "t", 3, words=CANARY)
        saver.delete_thread("t")
        left = b"".join(one.read_bytes() for one in tmp_path.iterdir() if one.is_file())
        assert CANARY.encode() not in left


# -- copies and pruning --------------------------------------------------------------------------------------------


def test_a_copy_has_everything_and_is_nobodys_part(fresh: Open) -> None:
    saver = RelightSaver(fresh())
    made = conversation(saver, "t", 5)
    saver.put_writes(made[-1], [("messages", "w"), ("__interrupt__", "i")], "task", "path")
    branch = put(saver, made[1], {"messages": ["other branch"]}, 9)
    saver.copy_thread("t", "copy")
    for at in [*made, branch]:
        id = at["configurable"]["checkpoint_id"]
        ours, theirs = saver.get_tuple(config("t", id)), saver.get_tuple(config("copy", id))
        assert ours is not None and theirs is not None
        assert theirs.checkpoint == ours.checkpoint
        assert (theirs.metadata, theirs.pending_writes) == (ours.metadata, ours.pending_writes)
    with pytest.raises(UsageError, match="already"):
        saver.copy_thread("t", "copy")
    saver.delete_thread("t")
    assert len(ids(saver, "copy")) == 6
    put(saver, config("copy", made[-1]["configurable"]["checkpoint_id"]), {"messages": ["on"]}, 7)


def test_pruning_keeps_the_newest_whole_and_frees_the_rest(tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        saver = RelightSaver(rl)
        put(saver, config("t"), {"messages": [CANARY], "x": 1})
        made = conversation(saver, "t", 4)
        put(saver, config("t", ns="child"), {"y": 2})
        newest, born = saver.get_tuple(config("t")), rl.sessions.get("t").created_at
        saver.prune(["t", "nobody"])
        assert newest is not None and rl.sessions.get("t").created_at == born
        kept = saver.get_tuple(config("t"))
        assert kept is not None
        assert kept.checkpoint == newest.checkpoint
        assert ids(saver, "t") == [newest.checkpoint["id"]]
        assert saver.get_tuple(config("t", ns="child")) is not None
        assert rl.history.verify("t").ok
        put(saver, made[-1], {"messages": ["goes on"]}, 9)
        left = b"".join(one.read_bytes() for one in tmp_path.iterdir() if one.is_file())
        assert CANARY.encode() not in left
        assert [one.name for one in rl.sessions.list()] == ["t"]
        saver.prune(["t"], strategy="delete")
        assert list(rl.sessions.list()) == []


def test_checkpoints_of_a_run_are_removed_with_their_writes_and_the_others_stay_whole(fresh: Open) -> None:
    rl = fresh()
    saver = RelightSaver(rl)
    messages: list[Any] = []
    at = config("t")
    for number in range(6):
        messages = [*messages, f"{number}"]
        at = put(saver, at, {"messages": messages}, number + 1, run_id=f"run-{number % 3}")
        saver.put_writes(at, [("messages", CANARY)], f"task-{number}")
    saver.delete_for_runs(["run-1", "run-9"])
    left = [one.checkpoint["channel_values"]["messages"] for one in saver.list(config("t"))]
    assert [len(one) for one in left] == [6, 4, 3, 1]
    assert left[0] == messages
    put(saver, at, {"messages": [*messages, "on"]}, 9)


@pytest.mark.crash
def test_a_pruning_that_is_killed_anywhere_leaves_the_thread_old_or_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figure: Figure
) -> None:
    """Ended before each of its writes to the store in turn; another program then reads, writes and prunes."""
    tried = 0
    for stop in range(6):
        with relight.open(tmp_path / f"{stop}.db") as rl:
            saver = RelightSaver(rl)
            made = conversation(saver, "t", 5)
            saver.close()
            left = [stop]
            with monkeypatch.context() as patch:
                for verb in ("import_sessions", "update", "delete", "commit"):
                    patch.setattr(rl._context.store, verb, _dying(getattr(rl._context.store, verb), left))
                try:
                    saver.prune(["t"])
                except _Killed:
                    tried += 1
        with relight.open(tmp_path / f"{stop}.db") as rl:
            saver = RelightSaver(rl, busy="wait")
            found = saver.get_tuple(config("t"))
            assert found is not None
            assert len(found.checkpoint["channel_values"]["messages"]) == 5
            assert len(ids(saver, "t")) in (1, 5)
            put(saver, made[-1], {"messages": ["on"]}, 9)
            saver.prune(["t"])
            assert len(ids(saver, "t")) == 1
            assert [one.key for one in rl.sessions.list()] == ["t"]
    assert tried >= 5
    figure("G2", f"LangGraph: a pruning ended before each of its {tried} writes: the thread is the old or the new one")


class _Killed(BaseException):
    pass


def _dying(verb: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    def call(*given: Any, **named: Any) -> Any:
        if left[0] == 0:
            raise _Killed
        left[0] -= 1
        return verb(*given, **named)

    return call


# -- as sessions ---------------------------------------------------------------------------------------------------


def test_every_verb_knows_a_thread(location: Open, tmp_path: Path) -> None:
    rl = location()
    saver = RelightSaver(rl)
    graph = asking().compile(checkpointer=saver)
    graph.invoke({"messages": ["go"]}, config("my-thread"))
    info = rl.sessions.get("my-thread")
    assert (info.agent, info.key, info.status) == ("langgraph", "my-thread", "waiting")
    assert [one.id for one in rl.sessions.list(key="my-thread")] == [info.id]
    assert rl.history.verify("my-thread").ok
    exported = tmp_path / "bundle"
    rl.history.export("my-thread", exported, key=b"0123456789abcdef" * 2)
    other = relight.open("memory:")
    other.history.import_(exported, key=b"0123456789abcdef" * 2)
    moved = asking().compile(checkpointer=RelightSaver(other)).get_state(config("my-thread"))
    assert moved.values == graph.get_state(config("my-thread")).values
    other.close()
    done = RelightSaver(rl)
    put(done, config("done"), {"x": 1}, source="update")
    assert rl.sessions.get("done").status == "completed"
    assert rl.admin.sweep(Retention(finished_days=0)).names == ["done"]
    assert rl.sessions.get("my-thread").id == info.id


def test_a_rewound_thread_goes_on_from_where_it_was_put_back(location: Open) -> None:
    rl = location()
    saver = RelightSaver(rl)
    made = conversation(saver, "t", 4)
    saver.close()
    steps = [one for one in rl.history.checkpoints("t") if one.kind == "state"]
    rl.history.rewind(f"t@{steps[1].seq}")
    found = saver.get_tuple(config("t"))
    assert found is not None
    assert found.checkpoint["id"] == made[1]["configurable"]["checkpoint_id"]
    put(saver, made[1], {"messages": ["another way"]}, 9)
    assert len(ids(saver, "t")) == 3


def test_a_fork_of_a_thread_is_a_thread_of_its_own(location: Open) -> None:
    rl = location()
    saver = RelightSaver(rl)
    made = conversation(saver, "t", 4)
    fork = rl.history.fork("t").id
    at = put(saver, config(fork, made[-1]["configurable"]["checkpoint_id"]), {"messages": ["only here"]}, 9)
    assert len(ids(saver, fork)) == 5
    assert len(ids(saver, "t")) == 4
    with pytest.raises(HasForks):
        saver.delete_thread("t")
    saver.delete_thread(fork)
    assert saver.get_tuple(at) is None
    saver.delete_thread("t")


@pytest.mark.parametrize("thread", ["1", "../../etc/passwd", "a b", "ü" * 300, "x\0y", "'; drop table sessions; --"])
def test_any_text_is_a_thread_id(fresh: Open, thread: str) -> None:
    rl = fresh()
    saver = RelightSaver(rl)
    at = put(saver, config(thread), {"x": thread})
    put(saver, config(thread + "!"), {"x": "other"})
    assert saver.get_tuple(at).checkpoint["channel_values"] == {"x": thread}  # type: ignore[union-attr]
    assert len(list(saver.list(None))) == 2
    saver.delete_thread(thread)
    assert [one.key for one in rl.sessions.list()] == [thread + "!"]


def test_a_name_that_somebody_else_has_is_left_to_them(location: Open) -> None:
    rl = location()
    with rl.session("t") as s:
        s.append({"role": "user", "content": "mine"})
    saver = RelightSaver(rl)
    put(saver, config("t"), {"x": 1})
    assert rl.sessions.get("t").agent is None
    assert saver.get_tuple(config("t")) is not None
    assert RelightSaver(location()).get_tuple(config("t")) is not None


def test_faults_of_the_commit_path_leave_a_put_whole_or_absent(location: Open, figure: Figure) -> None:
    points = [point for point in faults.POINTS if point.startswith("commit.")]
    rl = location()
    saver = RelightSaver(rl, lease_seconds=0.01)
    made = conversation(saver, "t", 2)
    known = 2
    for point in points:
        faults.arm(point, _die)
        try:
            with pytest.raises(_Killed):
                made = [put(saver, made[-1], {"messages": [point]}, 3)]
        finally:
            faults.disarm()
        fresh_look = len(ids(RelightSaver(location()), "t"))
        assert fresh_look in (known, known + 1)
        known = fresh_look
        assert rl.history.verify("t").ok
    figure("G1", f"LangGraph: a put ended at {len(points)} points of a commit is whole or absent")


def _die(*given: Any) -> None:
    raise _Killed


def test_a_thread_from_a_bundle_that_nobody_vouched_for_is_neither_read_nor_run(location: Open, tmp_path: Path) -> None:
    rl = location()
    conversation(RelightSaver(rl), "t", 2)
    rl.history.export("t", tmp_path / "bundle")
    with relight.open("memory:") as other:
        other.history.import_(tmp_path / "bundle")
        saver = RelightSaver(other)
        for use in (
            lambda: saver.get_tuple(config("t")),
            lambda: list(saver.list(config("t"))),
            lambda: put(saver, config("t"), {"messages": ["mine"]}),
            lambda: counting(1, tmp_path / "x").compile(checkpointer=saver).invoke({"messages": ["go"]}, config("t")),
        ):
            with pytest.raises(NotResumable):
                use()
        assert not (tmp_path / "x").exists()
