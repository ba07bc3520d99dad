"""Nobody deletes history unasked: no policy, no removal; with one at most one sweep a day, and what went is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from relight.errors import NotFound, UsageError
from relight.journal.retention import retention_days
from relight.library.facade import Relight
from tests.support.shell import Shell, eventually
from tests.support.simulation import Simulation

DAY = 86_400.0


def finished(rl: Relight, name: str) -> str:
    with rl.session(name) as s:
        s.append({"role": "user", "content": "x"})
        s.complete("done")
    return s.id


def test_without_a_policy_no_process_sweeps_however_old_a_session_is(world: Simulation) -> None:
    rl = world.start()
    finished(rl, "old")
    world.time.advance(1000 * DAY)
    assert rl.admin.sweep_if_due(by="serve") is None
    assert not rl.admin.retention().is_set and rl.admin.retention().finished_days is None
    assert rl.sessions.find("old") is not None
    assert (rl.admin.kept_longer_than(7.0).sessions, rl.admin.kept_longer_than(2000.0).sessions) == (1, 0)


def test_a_policy_is_the_stores_and_one_of_all_its_processes_sweeps_a_day(world: Simulation) -> None:
    one, other = world.start(), world.start()
    old = finished(one, "old")
    one.admin.set_retention(7.0, by="ada")
    assert (other.admin.retention().finished_days, other.admin.retention().set_by) == (7.0, "ada")
    assert [rl.admin.sweep_if_due(by="serve") is None for rl in (one, other)] == [False, True]
    world.time.advance(8 * DAY)
    swept = [rl.admin.sweep_if_due(by="serve") for rl in (one, other, world.start())]
    assert [one.sessions if one is not None else None for one in swept] == [[old], None, None]
    finished(one, "next")
    world.time.advance(8 * DAY)
    one.admin.set_retention(None, by="ada")
    assert other.admin.retention().is_set and other.admin.sweep_if_due(by="serve") is None
    assert one.sessions.find("next") is not None


def test_a_setting_of_a_process_becomes_the_stores_policy_when_it_sweeps(
    world: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    rl = world.start()
    monkeypatch.setenv("RELIGHT_RETENTION", "36h")
    assert rl.admin.retention().finished_days == 1.5
    assert rl.admin.sweep_if_due(by="serve") is not None
    monkeypatch.delenv("RELIGHT_RETENTION")
    assert (rl.admin.retention().finished_days, rl.admin.retention().set_by) == (1.5, "RELIGHT_RETENTION")
    monkeypatch.setenv("RELIGHT_RETENTION", "a week")
    with pytest.raises(UsageError, match="RELIGHT_RETENTION"):
        rl.admin.sweep_if_due(by="serve")


@pytest.mark.parametrize(
    ("text", "days"), [("7d", 7.0), ("2w", 14.0), ("36h", 1.5), ("90m", 0.0625), ("30", 30.0), ("OFF", None)]
)
def test_an_age_is_written_as_people_do(text: str, days: float | None) -> None:
    assert retention_days(text) == days


@pytest.mark.parametrize("text", ["", "-1d", "7 days", "1e3", "nan", "d"])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a retention"):
        retention_days(text)


def test_what_was_removed_is_known_by_its_id_and_nothing_else_is(world: Simulation) -> None:
    rl = world.start()
    swept, asked, there = finished(rl, "swept"), finished(rl, "secret-name"), finished(rl, "there")
    rl.sessions.remove("secret-name")
    rl.sessions.remove("there", dry_run=True)
    rl.runs.send("there", "go on")
    world.time.advance(8 * DAY)
    rl.admin.set_retention(7.0)
    rl.admin.sweep_if_due(by="serve on h")
    by_policy, on_request = rl.sessions.removed(swept), rl.sessions.removed(asked)
    assert by_policy is not None and (by_policy.by, by_policy.finished_days) == ("serve on h", 7.0)
    assert by_policy.sessions == [swept]
    assert on_request is not None and not on_request.by_policy and on_request.sessions == []
    for session, how in ((swept, "by the retention policy of 7d, serve on h"), (asked, "on request")):
        for read in (rl.sessions.get, rl.history.load, rl.runs.plan, lambda ref: rl.history.checkpoint(f"{ref}@1")):
            with pytest.raises(NotFound) as gone:
                read(session)
            (line,) = gone.value.evidence
            assert line.startswith("removed ") and line.endswith(how)
    assert rl.sessions.removed(there) is None and rl.sessions.removed("never") is None
    records = rl.store.list_records("tombstone").values()
    assert not [one for one in records if b"secret-name" in one or asked.encode() in one]


def test_a_removal_that_was_refused_leaves_no_tombstone(world: Simulation) -> None:
    rl = world.start()
    session = finished(rl, "a")

    class Refusing:
        def __getattr__(self, name: str) -> Any:
            return getattr(rl.store, name)

        def delete(self, *given: Any, **more: Any) -> None:
            raise NotFound("a")

    with pytest.raises(NotFound):
        world.start(Refusing()).sessions.remove("a")
    assert rl.sessions.removed(session) is None and rl.sessions.find("a") is not None


def test_a_supervisor_sweeps_where_the_store_has_a_policy(tmp_path: Path) -> None:
    """M18: without serve and without a worker."""
    shell = Shell(tmp_path / "p.db", tmp_path)
    shell.run("run", "--name", "old", "--", "true")
    before = shell.run("run", "--name", "a", "--", "true")
    assert before.returncode == 0 and {one["name"] for one in shell.json("list")} == {"old", "a"}
    reported = shell.json("sweep", "--set", "0d")
    assert (reported["retention"], reported["last_sweep_at"]) == ("0d", None)
    shell.run("run", "--name", "b", "--", "true")
    assert eventually(lambda: "old" not in {one["name"] for one in shell.json("list")})
    assert shell.json("sweep", "--set", "off")["finished_days"] is None
