"""Statuses change by one table, and opening does for each status what semantics.md says."""

from __future__ import annotations

from typing import Any

import pytest

from relight.errors import Conflict, Finished, LeaseHeld, NotResumable, UsageError, Waiting
from relight.journal.commit import plan_commit
from relight.values.lease import Instant, Lease, Owner
from relight.values.session import Head
from relight.values.status import STATUSES, Status, StatusChange
from relight.values.step import Draft
from tests.support.simulation import Simulation

TABLE: dict[Status, set[Status]] = {
    "queued": {"spawning", "working", "terminated", "archived"},
    "spawning": {"working", "queued", "failed", "terminated"},
    "working": {"waiting", "queued", "completed", "failed", "halted", "terminated"},
    "waiting": {"queued", "spawning", "working", "failed", "terminated"},
    "completed": {"queued", "spawning", "working", "archived"},
    "failed": {"queued", "spawning", "working", "archived"},
    "halted": {"queued", "spawning", "working", "archived"},
    "terminated": {"queued", "spawning", "working", "archived"},
    "archived": set(),
}
"""semantics.md, spelled again on purpose"""
NOW = Instant(timeline="t", us=0)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def says(text: str) -> Any:
    return lambda messages: {"role": "assistant", "content": text}


@pytest.mark.parametrize("before", STATUSES)
@pytest.mark.parametrize("after", STATUSES)
def test_a_commit_changes_the_status_by_the_table_and_no_other_way(before: Status, after: Status) -> None:
    lease = Lease(owner=Owner(id="me"), deadline=NOW, seconds=1)
    head = Head(session="s", seq=3, head=3, status=before, epoch=1, lease=lease)
    draft = Draft(kind="status", body=b"", key=b"", owner="me", epoch=1, status=StatusChange(status=after))
    if after == before or after in TABLE[before]:
        moved = plan_commit(head, draft, at_us=1, now=NOW).head
        assert moved.status == after
        ended = after in {"completed", "failed", "halted", "terminated", "archived"}
        assert (moved.ended_us is not None) == ended
    else:
        with pytest.raises(Conflict):
            plan_commit(head, draft, at_us=1, now=NOW)


def leave(world: Simulation, status: str) -> str:
    """A session "a" of one message, in this status; its id."""
    rl = world.start()
    s = rl.session("a")
    s.append(user("go"))
    if status == "waiting":
        with pytest.raises(Waiting), s:
            s.ask("may I?")
    elif status == "queued":
        s.close()
        rl.runs.send("a", "more")
    elif status == "working":
        world.crash()
    elif status == "archived":
        s.complete("done")
        rl.sessions.archive("a")
    elif status == "terminated":
        s.close()
    else:
        getattr(s, {"completed": "complete", "failed": "fail", "halted": "halt"}[status])("done")
    return s.id


@pytest.mark.parametrize("status", ["queued", "waiting", "failed", "halted", "terminated", "working"])
def test_what_has_not_completed_opens_as_a_new_attempt_where_it_stopped(world: Simulation, status: str) -> None:
    session = leave(world, status)
    rl = world.start()
    before = rl.history.load("a")
    with rl.session("a") as s:
        assert (s.id, s.attempt, s.status, s.is_finished, s.is_new) == (session, 2, "working", False, False)
        assert s.resumed_from == before.seq
        assert s.messages == before.messages
        s.append(user("on"))
    assert rl.history.load("a").messages == [*before.messages, user("on")]
    assert rl.history.verify().ok


def test_a_completed_session_opens_to_read_and_its_loop_returns_the_result(world: Simulation) -> None:
    rl = world.start()
    with rl.session("a") as s:
        assert s.run(says("42"), prompt="ask") == "42"
    seq = rl.sessions.get("a").seq
    with world.restart().session("a") as s:
        assert s.is_finished
        assert s.run(says("never asked"), prompt="ask") == "42"
        assert s.run(says("never asked")) == "42"
        with pytest.raises(Finished):
            s.append(user("x"))
        assert s.result == "42"
    assert world.start().sessions.get("a").seq == seq, "reading wrote something"


def test_a_completed_session_goes_on_with_a_new_prompt(world: Simulation) -> None:
    rl = world.start()
    with rl.session("a") as s:
        s.run(says("42"), prompt="ask")
    with world.restart().session("a") as s:
        assert s.run(says("43"), prompt="ask again") == "43"
        assert (s.attempt, s.result) == (2, "43")
    contents = [message["content"] for message in world.start().history.load("a").messages]
    assert contents == ["ask", "42", "ask again", "43"]


def test_an_archived_session_is_not_restorable_and_nothing_is_touched(world: Simulation) -> None:
    session = leave(world, "archived")
    rl = world.start()
    before = rl.sessions.get(session)
    for attempt in (
        lambda: rl.session(session),
        lambda: rl.runs.prepare(session),
        lambda: rl.runs.send(session, "x"),
        lambda: rl.history.rewind(f"{session}@1"),
    ):
        with pytest.raises(NotResumable, match=r"not restorable \(status=archived\)"):
            attempt()
    assert rl.sessions.get(session).seq == before.seq
    assert not rl.runs.plan(session).ok
    assert rl.history.load(session).messages == [user("go")]


def test_a_new_session_may_begin_under_the_name_of_an_archived_one(world: Simulation) -> None:
    session = leave(world, "archived")
    rl = world.start()
    with rl.session("a", resume=False) as s:
        assert (s.id != session, s.is_new) == (True, True)
    assert rl.sessions.get(session).status == "archived"


def test_resume_false_begins_anew_and_the_former_keeps_its_id(world: Simulation) -> None:
    session = leave(world, "failed")
    rl = world.start()
    with rl.session("a", resume=False) as s:
        assert (s.id != session, s.is_new, s.attempt) == (True, True, 1)
    former = rl.sessions.get(session)
    assert (former.name, former.status) == (None, "failed")
    assert rl.history.load(session).messages == [user("go")]


def test_resume_false_with_a_bad_option_takes_nobodys_name(world: Simulation) -> None:
    session = leave(world, "failed")
    rl = world.start()
    with pytest.raises(UsageError):
        rl.session("a", resume=False, labels={"x": 1})  # type: ignore[dict-item]
    assert rl.sessions.get("a").id == session


def test_is_new_until_a_message_is_committed(world: Simulation) -> None:
    world.start().session("a")
    with world.restart().session("a") as s:
        assert s.is_new
        s.checkpoint("mark")
        assert s.is_new
        s.append(user("go"))
        assert not s.is_new


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (None, "terminated", "left"),
        (ValueError("bad\nworse"), "failed", "ValueError: bad\nworse"),
        (KeyboardInterrupt(), "terminated", "interrupted (KeyboardInterrupt)"),
        (SystemExit(1), "terminated", "interrupted (SystemExit)"),
    ],
    ids=["left", "exception", "ctrl-c", "exit"],
)
def test_leaving_the_block_tells_how(world: Simulation, error: BaseException | None, status: str, reason: str) -> None:
    rl = world.start()
    if error is None:
        with rl.session("a") as s:
            s.append(user("go"))
    else:
        with pytest.raises(type(error)), rl.session("a") as s:
            s.append(user("go"))
            raise error
    info = rl.sessions.get("a")
    assert (info.status, info.reason) == (status, reason)
    assert info.failure is None or info.failure.fields["type"] == "ValueError"
    with pytest.raises(UsageError):
        s.append(user("too late"))
    with rl.session("a") as again:
        assert again.messages == [user("go")]


def test_state_set_before_leaving_is_saved_with_the_verdict(world: Simulation) -> None:
    rl = world.start()
    with rl.session("a") as s:
        s.state["n"] = 1
    assert rl.history.load("a").state == {"n": 1}


def test_a_question_is_committed_leaves_the_block_as_an_exception_and_its_answer_is_found(world: Simulation) -> None:
    rl = world.start()
    reached = []
    with pytest.raises(Waiting, match=r"deploy\?") as waits, rl.session("a") as s:
        s.append(user("go"))
        reached.append(s.ask("deploy?"))
    assert waits.value.line == (
        "relight: a is waiting for an answer: deploy?  (relight send a ANSWER, then run this program again)"
    )
    info = rl.sessions.get("a")
    assert (reached, info.status, info.question) == ([], "waiting", "deploy?")
    rl.runs.send("a", "yes")
    assert (rl.sessions.get("a").status, rl.sessions.get("a").question) == ("queued", None)
    with world.restart().session("a") as s:
        assert s.ask("deploy?") == "yes"
        with pytest.raises(Waiting):
            s.ask("really?")
    assert rl.sessions.get("a").status == "waiting"


def test_a_waiting_of_another_session_ends_a_block_without_a_failure(world: Simulation) -> None:
    rl = world.start()
    b = rl.session("b")
    with pytest.raises(Waiting), rl.session("a"):
        b.ask("?")
    assert (rl.sessions.get("a").status, rl.sessions.get("b").status) == ("terminated", "waiting")
    assert rl.sessions.get("a").reason == "left: b is waiting for an answer: ?"


@pytest.mark.parametrize("verdict", ["complete", "fail", "halt"])
def test_after_a_verdict_nothing_more_is_written(world: Simulation, verdict: str) -> None:
    rl = world.start()
    with rl.session("a") as s:
        s.append(user("go"))
        getattr(s, verdict)("done")
        seq = rl.sessions.get("a").seq
        for attempt in (
            lambda: s.append(user("x")),
            s.complete,
            s.checkpoint,
            lambda: s.once("k", lambda: 1),
            lambda: s.settle("k", 1),
            lambda: s.replace([]),
        ):
            with pytest.raises(Finished):
                attempt()
    assert rl.sessions.get("a").seq == seq


def test_two_live_processes_cannot_both_open_a_session(world: Simulation) -> None:
    first, second = world.start(), world.start()
    with first.session("a") as s:
        with pytest.raises(LeaseHeld) as caught:
            second.session("a")
        assert (caught.value.owner, caught.value.epoch) == ("pid 1 on test", 1)
        assert "until" in str(caught.value) and "UTC" in caught.value.until
        s.append(user("undisturbed"))
        for write in (
            lambda: second.runs.send("a", "x"),
            lambda: second.history.rewind("a@1"),
            lambda: second.sessions.remove("a"),
        ):
            with pytest.raises(LeaseHeld):
                write()
    with second.session("a") as s:
        assert s.messages == [user("undisturbed")]


def test_reading_changes_nothing(world: Simulation) -> None:
    leave(world, "working")
    rl = world.start()
    before = (
        [(step.seq, step.digest) for step in rl.store.steps(rl.sessions.get("a").id)],
        rl.store.find(rl.sessions.get("a").id),
    )
    (
        rl.history.load("a"),
        rl.history.checkpoints("a"),
        rl.runs.plan("a"),
        rl.history.verify(),
        list(rl.history.events("a")),
        list(rl.sessions.list()),
    )
    assert before == (
        [(step.seq, step.digest) for step in rl.store.steps(rl.sessions.get("a").id)],
        rl.store.find(rl.sessions.get("a").id),
    )
