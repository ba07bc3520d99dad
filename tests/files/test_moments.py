"""When files are captured, that step and snapshot are one commit, and what a failed capture costs: a note."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.errors import OverQuota, UsageError, WorkspaceUnusable
from relight.ports import faults
from relight.values.snapshot import Snapshot
from relight.workspaces.policy import TreePolicy
from tests.figures import Figure
from tests.files.desk import Desk, captured, note_at, reply, rows, user


def steps(desk: Desk, moments: str | float) -> tuple[list[str], list[str]]:
    """All kinds of steps after a change of a file each; those that carry a snapshot."""
    rl = desk.start()
    with rl.session("agent", workspace=desk.root, snapshot=moments) as s:
        for number, act in enumerate(
            (
                lambda: s.append(user("do it")),
                lambda: s.append(reply("done")),
                lambda: s.checkpoint("here"),
                lambda: s.partial(1),
                lambda: s.once("k", lambda: 1),
            )
        ):
            desk.world.time.advance(4)
            desk.write("file", str(number))
            act()
        desk.write("file", "last")
        s.complete()
    held = rows(rl)
    return [row.kind for row in held], [f"{row.seq} {row.kind}" for row in held if row.snapshots]


@pytest.mark.parametrize(
    ("moments", "wanted"),
    [
        ("step", ["2 message", "3 message", "4 mark", "5 mark", "7 result", "8 status"]),
        ("turn", ["3 message", "4 mark", "8 status"]),
        (10.0, ["4 mark", "8 status"]),
        ("manual", []),
    ],
)
def test_files_are_captured_at_the_moments_of_the_policy(desk: Desk, moments: str | float, wanted: list[str]) -> None:
    kinds, found = steps(desk, moments)
    assert kinds == ["attempt", "message", "message", "mark", "mark", "intent", "result", "status"]
    assert found == wanted


def test_an_unknown_moment_is_refused_and_nothing_is_recorded(desk: Desk) -> None:
    rl = desk.start()
    for wrong in ("always", 0, -1.0, True):
        with pytest.raises(UsageError):
            rl.session("agent", workspace=desk.root, snapshot=wrong)


def test_a_snapshot_joins_the_next_step_and_nothing_changed_adds_nothing(desk: Desk) -> None:
    rl = desk.start()
    desk.write("file", "one")
    with rl.session("agent", workspace=desk.root, snapshot="manual") as s:
        first = s.snapshot()
        assert isinstance(first, Snapshot) and not captured(rl)
        s.append(user("1"))
        assert rows(rl)[-1].snapshots == {"main": first.id}
        again = s.snapshot()
        assert isinstance(again, Snapshot) and again.id == first.id and not again.is_new
        s.append(user("2"))
        assert captured(rl) == [2], "the same snapshot was named twice"
    assert desk.damage(rl) == []


@pytest.mark.guarantee("G2")
@pytest.mark.parametrize("name", ["commit.begun", "commit.written"])
def test_step_and_snapshot_are_one_commit(desk: Desk, name: str, figure: Figure) -> None:
    rl = desk.start()
    desk.write("file", "one")
    with rl.session("agent", workspace=desk.root) as s:
        s.append(user("1"))
        before = rows(rl)
        desk.write("file", "two")

        def fail(_: str) -> None:
            raise faults.InjectedFault(name)

        faults.arm(name, fail)
        try:
            with pytest.raises(faults.InjectedFault):
                s.append(user("2"))
        finally:
            faults.disarm()
        assert rows(rl) == before, "a step that failed left its snapshot, or itself"
        s.append(user("2"))
        assert rows(rl)[-1].snapshots and len(rows(rl)) == len(before) + 1
    assert desk.damage(rl) == []
    figure("G2", f"a commit that failed at {name} left neither step nor snapshot")


@pytest.mark.guarantee("G27")
def test_a_capture_that_fails_costs_a_note_and_not_the_step(desk: Desk, figure: Figure) -> None:
    rl = desk.start()
    desk.write("file", "one")
    with rl.session("agent", workspace=desk.root) as s:
        s.append(user("1"))
    desk.policy = TreePolicy(quota_bytes=100)
    rl = desk.restart()
    desk.write("file", os.urandom(5000))
    with rl.session("agent") as s:
        paid = s.append(reply("a paid reply"))
        assert paid is not None
        assert s.messages[-1] == reply("a paid reply")
        told = note_at(rl, paid.seq)["files_not_captured"]
        assert "100" in told and "bytes" in told, "the note does not name the numbers"
        assert f'workspace "main" ({desk.root})' in told, "the note does not name root and path"
        assert any("could not be captured" in line for line in desk.world.told)
        with pytest.raises(OverQuota) as refused:
            s.snapshot()
        assert refused.value.bound_bytes == 100 < refused.value.would_bytes
        with pytest.raises(OverQuota):
            s.checkpoint("asked-for")
    assert desk.damage(rl) == []
    assert rl.load("agent").messages[-1] == reply("a paid reply")
    figure("G27", "a quota of 100 bytes: refused with its numbers, the step kept and noted")


def test_a_floor_of_free_space_is_kept(desk: Desk) -> None:
    desk.policy = TreePolicy(floor_bytes=1 << 60)
    rl = desk.start()
    desk.write("file", "x" * 100)
    with (
        rl.session("agent", workspace=desk.root, snapshot="manual") as s,
        pytest.raises(OverQuota, match="1,152,921,504"),
    ):
        s.snapshot()
    assert [path for path in desk.blobs.rglob("*.seg") if path.stat().st_size > 8] == [], "something was written"


@pytest.mark.guarantee("G26")
def test_secrets_do_not_enter_the_store_by_a_step(desk: Desk, figure: Figure) -> None:
    rl = desk.start()
    secrets = [".env", ".env.local", "deploy/id_rsa", "tls/server.key", "home/.netrc", ".aws/credentials"]
    for name in secrets:
        desk.write(name, b"CANARY-2b81")
    desk.write("README", "public")
    with rl.session("agent", workspace=desk.root) as s:
        s.append(reply("1"))
    shutil.rmtree(desk.root)
    desk.root.mkdir()
    left = [one.path for one in rl.diff("agent@2", "agent@2") if one.what == "left out" and one.kind == "secret"]
    assert sorted(left) == sorted(secrets)
    stored = b"".join(path.read_bytes() for path in desk.path.rglob("*") if path.is_file())
    assert b"CANARY-2b81" not in stored
    figure("G26", f"{len(secrets)} secret files in the workspace, none in the store, all told")


def test_a_finished_session_that_goes_on_captures_its_files_again(desk: Desk) -> None:
    rl = desk.start()

    def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
        desk.write("file", f"after {len(messages)} messages")
        return reply("done")

    for prompt in ("one", "two"):
        with rl.session("agent", workspace=desk.root) as s:
            relight.loop(s, model=model, tools=[], prompt=prompt)
    assert rl.diff("agent") == [], "what the second prompt changed is in no snapshot"
    assert rl.get("agent").attempt == 2


@pytest.mark.parametrize("wrong", ["/nowhere/at/all", "/", "a\0b", "", 3, {}, {"": "."}, {"a": None}], ids=repr)
def test_an_unusable_workspace_leaves_nothing_behind(desk: Desk, wrong: Any) -> None:
    rl = desk.start()
    with rl.session("there") as s:
        s.append(user("hello"))
    for name, resume in (("new", True), ("there", True), ("there", False)):
        with pytest.raises((WorkspaceUnusable, UsageError)):
            rl.session(name, workspace=wrong, resume=resume)
    assert rl.find("new") is None
    assert rl.get("there").workspace in (None, {}) and [one.name for one in rl.sessions()] == ["there"]
    with rl.session("there") as s:
        assert s.messages == [user("hello")]


def test_a_missing_workspace_is_refused_before_anything_is_touched(desk: Desk) -> None:
    rl = desk.start()
    desk.working(rl, "one")
    before = rows(rl)
    shutil.rmtree(desk.root)
    with pytest.raises(WorkspaceUnusable, match="workspace missing") as refused:
        rl.session("agent")
    assert "main" in str(refused.value) and str(desk.root) in str(refused.value)
    assert rows(rl) == before and not desk.root.exists()


def test_a_replaced_directory_is_refused(desk: Desk) -> None:
    rl = desk.start()
    seqs = desk.working(rl, "one", "two")
    desk.root.rename(desk.path / "away")
    desk.root.mkdir()
    desk.write("mine", "another directory")
    for act in (lambda: rl.session("agent"), lambda: rl.restore(f"agent@{seqs[0]}", choice="force")):
        with pytest.raises(WorkspaceUnusable, match="not the directory that was recorded"):
            act()
    assert desk.picture().keys() == {b"mine"}


@pytest.mark.parametrize("place", ["/", "home", "store"])
def test_places_that_are_no_workspace_are_refused(desk: Desk, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rl = desk.start()
    monkeypatch.setenv("HOME", str(desk.root))
    desk.blobs.mkdir(exist_ok=True)
    path = {"/": Path("/"), "home": desk.root, "store": desk.blobs}[place]
    with pytest.raises(WorkspaceUnusable, match="failed to prepare workspace"):
        rl.session("agent", workspace=path)


def test_several_roots_are_captured_together_and_an_error_names_root_and_path(desk: Desk) -> None:
    rl = desk.start()
    other = desk.path / "other"
    other.mkdir()
    (other / "o").write_text("o")
    desk.write("file", "m")
    with rl.session("agent", workspace={"code": str(desk.root), "docs": str(other)}) as s:
        s.append(reply("1"))
        assert rows(rl)[-1].snapshots.keys() == {"code", "docs"}
        (other / "o").write_text("changed")
        s.append(reply("2"))
        assert rows(rl)[-1].snapshots.keys() == {"docs"}, "a root that did not change was named again"
    assert desk.damage(rl) == []
    shutil.rmtree(other)
    with pytest.raises(WorkspaceUnusable, match=f'workspace "docs" \\({other}\\)'):
        rl.session("agent")


def test_the_checkpoint_that_is_returned_names_its_snapshot(desk: Desk) -> None:
    rl = desk.start()
    with rl.session("agent", workspace=desk.root) as s:
        desk.write("file", "one")
        returned = [s.append(user("hello")), s.checkpoint("same")]
        desk.write("file", "two")
        with s.step():
            s.append(reply("in a block"))
        returned.append(s.checkpoint("two"))
        desk.write("file", "three")
        returned.append(s.checkpoint("three"))
    listed = {one.seq: one for one in rl.checkpoints("agent")}
    for one in returned:
        assert one is not None and one.snapshot == listed[one.seq].snapshot
    assert [one is not None and one.snapshot is not None for one in returned] == [True, False, False, True]
