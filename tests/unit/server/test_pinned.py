"""If-Match: what was decided on a plan that has moved since is never done, whenever it moved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

import relight
from relight.cli.app.group import run
from relight.errors import PlanMoved, StoreUnavailable
from relight.ports import faults
from relight.ports.store import Store
from relight.server.actions import ActionResult
from relight.server.tokens import Principal
from relight.stores.sqlite.store import SqliteStore
from relight.system.machine import SystemClock
from relight.values.options import ResumeOptions, RunOptions
from relight.values.step import Committed, Draft
from tests.support.server_harness import Answer, ServerHarness
from tests.unit.server.test_starting import logical

WHO = Principal(name="somebody", scope="admin")
VERBS: dict[str, Callable[[relight.Relight, str], object]] = {
    "archive": lambda rl, ref: rl.sessions.archive(ref),
    "send": lambda rl, ref: rl.runs.send(ref, "x"),
    "rewind": lambda rl, ref: rl.history.rewind(f"{ref}@1"),
    "clear": lambda rl, ref: rl.admin.release(ref, forget_native=True),
    "fork": lambda rl, ref: rl.history.fork(ref),
    "label": lambda rl, ref: rl.history.label(ref, "here"),
    "enqueue": lambda rl, ref: rl.queues.enqueue(ref, queue="night"),
    "remove": lambda rl, ref: rl.sessions.remove(ref),
    "resume": lambda rl, ref: rl.runs.supervise(ref, ResumeOptions(prompt="x")).run(),
}


def made(rl: relight.Relight, name: str, directory: Path) -> str:
    """A session with two steps; the hash of its plan."""
    rl.runs.create(["true"], RunOptions(directory=str(directory), agent="true", name=name))
    rl.runs.send(name, "first")
    rl.runs.send(name, "second")
    return rl.runs.plan_hash(name)


@pytest.fixture
def job(harness: ServerHarness, tmp_path: Path) -> str:
    return made(harness.rl, "job", tmp_path)


def test_what_moved_after_the_comparison_is_not_acted_on(tmp_path: Path) -> None:
    with relight.open(tmp_path / "p.db") as rl:
        pinned = rl.pinned("job", made(rl, "job", tmp_path))
        rl.runs.send("job", "meanwhile")
        before = logical(tmp_path / "p.db")
        for name, verb in VERBS.items():
            with pytest.raises(PlanMoved):
                verb(pinned, "job")
            assert logical(tmp_path / "p.db") == before, name


def test_what_moved_right_before_the_transaction_is_not_acted_on(tmp_path: Path) -> None:
    """The verb has looked, and found it as it was shown."""
    with relight.open(tmp_path / "p.db") as rl:
        made(rl, "job", tmp_path)
        seen = None

        def intrude(name: str) -> None:
            nonlocal seen
            faults.disarm()
            rl.runs.send("job", "meanwhile")
            seen = logical(tmp_path / "p.db")

        for name in ("archive", "send", "rewind", "clear", "enqueue", "resume"):
            pinned = rl.pinned("job", rl.runs.plan_hash("job"))
            faults.arm("commit.enter", intrude)
            try:
                with pytest.raises(PlanMoved):
                    VERBS[name](pinned, "job")
            finally:
                faults.disarm()
            assert logical(tmp_path / "p.db") == seen, name


def test_an_owner_that_wrote_since_is_not_cleared(tmp_path: Path) -> None:
    with relight.open(tmp_path / "p.db") as rl, rl.session("job") as s:
        pinned = rl.pinned("job", rl.runs.plan_hash("job"))

        def intrude(name: str) -> None:
            faults.disarm()
            s.append({"role": "user", "content": "it lives"})

        faults.arm("commit.enter", intrude)
        with pytest.raises(PlanMoved):
            pinned.admin.release("job")
        s.append({"role": "user", "content": "and goes on"})


def test_what_has_not_moved_is_done_as_ever(tmp_path: Path) -> None:
    with relight.open(tmp_path / "p.db") as rl:
        for name, verb in VERBS.items():
            plan = made(rl, name, tmp_path)
            before = logical(tmp_path / "p.db")
            verb(rl.pinned(name, plan), name)
            assert logical(tmp_path / "p.db") != before, name


class AnswersOnceTooLate:
    """A store whose answer to one commit is lost after it was made."""

    def __init__(self, store: Store) -> None:
        self.store, self.loses = store, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def commit(self, session: str, draft: Draft) -> Committed:
        committed = self.store.commit(session, draft)
        if self.loses:
            self.loses = False
            raise StoreUnavailable("the answer was lost")
        return committed


def test_a_change_whose_answer_was_lost_is_not_taken_for_somebody_elses(tmp_path: Path) -> None:
    store = AnswersOnceTooLate(SqliteStore(tmp_path / "p.db", SystemClock()))
    with relight.open(cast(Store, store)) as rl:
        pinned = rl.pinned("job", made(rl, "job", tmp_path))
        store.loses = True
        pinned.sessions.archive("job")
        assert pinned.sessions.get("job").status == "archived" and not store.loses


def test_the_new_plan_is_told_also_where_it_moved_at_the_last_moment(harness: ServerHarness, job: str) -> None:
    def do(rl: relight.Relight) -> ActionResult:
        harness.rl.runs.send("job", "meanwhile")
        return ActionResult(document=rl.sessions.archive("job"))

    with pytest.raises(PlanMoved) as moved:
        harness.service.actions.run(WHO, "archive", "job", do, asked={}, plan_hash=job)
    assert moved.value.plan["plan"] == harness.rl.runs.plan_hash("job")  # type: ignore[attr-defined]
    assert harness.rl.sessions.get("job").status == "queued"
    (outcome,) = harness.service.state.rows("SELECT outcome FROM actions")
    assert outcome == ("refused: RL-4010",)


def test_a_start_begins_as_it_was_shown_or_not_at_all(
    harness: ServerHarness, job: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the supervisor is called, and as a stale request is answered."""
    monkeypatch.setenv("RELIGHT_STORE", str(harness.store))
    harness.rl.runs.send("job", "meanwhile")
    before = logical(harness.store)
    assert run(["resume", "--plan", job, "job"]) == 4 and "RL-4010" in capsys.readouterr().err
    refused = harness.client().post("/api/sessions/job/resume", json={}, headers={"If-Match": job})
    assert Answer(refused).code == "RL-4010" and logical(harness.store) == before
    assert run(["resume", "--plan", harness.rl.runs.plan_hash("job"), "--quiet", "job"]) == 0
    assert harness.rl.sessions.get("job").status == "completed"
