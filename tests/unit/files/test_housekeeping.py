"""Sweeping captured files: safe beside writers, forecast exactly, and after `rm` not a byte or a name is left."""

from __future__ import annotations

import os
import queue
import threading
from pathlib import Path

import pytest

from relight.errors import Conflict, RelightError
from relight.journal.files.store_marks import MARK_NAME
from relight.library.facade import Relight
from relight.stores.memory import MemoryStore
from relight.values.policy import Retention
from relight.workspaces.pool.pool import Pool
from tests.support.figures import Figure
from tests.support.files_harness import FilesHarness, captured, note_at, reply, rows

AT_ONCE = Retention(grace_seconds=0.0)
OVER = Retention(grace_seconds=0.0, finished_days=0.0)


def segments(harness: FilesHarness) -> int:
    return sum(path.stat().st_size for path in harness.blobs.rglob("*.seg"))


def _is_content(path: Path) -> bool:
    """A file of captured content; the mark of a store's directory says nothing of anybody."""
    return path.is_file() and path.name != MARK_NAME


def everything(harness: FilesHarness, rl: Relight) -> bytes:
    """Every byte below the blobs, and every object in them unpacked."""
    raw = [path.read_bytes() + os.fsencode(path.name) for path in harness.blobs.rglob("*") if _is_content(path)]
    for home in (one for one in harness.blobs.glob("*") if one.is_dir()):
        pool = Pool(harness.blobs, home.name, rl.store)
        raw += [pool.read(ref) for name in pool.files() for ref, _ in pool.objects_in(name)]
        pool.close()
    return b"\n".join(raw)


def left_behind(harness: FilesHarness, rl: Relight) -> None:
    """Captured and never named by a step: a writer died in between."""
    with rl.session("agent") as s:
        for _ in range(4):
            harness.write("junk", os.urandom(40_000))
            s.snapshot()
        (harness.root / "junk").unlink()


@pytest.mark.guarantee("G18")
def test_the_forecast_of_a_sweep_is_what_it_frees(harness: FilesHarness, figure: Figure) -> None:
    rl = harness.start()
    harness.write("keep", os.urandom(30_000))
    harness.working(rl, "one", "two")
    left_behind(harness, rl)
    forecast = rl.admin.sweep(AT_ONCE, dry_run=True)
    before = segments(harness)
    assert forecast.file_bytes > 150_000 and segments(harness) == before, "a forecast removed something"
    swept = rl.admin.sweep(AT_ONCE)
    assert swept.file_bytes == forecast.file_bytes == before - segments(harness)
    assert harness.damage(rl) == []
    assert rl.admin.sweep(AT_ONCE, dry_run=True).file_bytes == 0, "a sweep left what a sweep would remove"
    figure("G18", f"a sweep freed exactly the {forecast.file_bytes:,} bytes it had forecast")


@pytest.mark.guarantee("G18")
def test_content_that_no_step_names_yet_has_a_period_of_grace(harness: FilesHarness, figure: Figure) -> None:
    rl = harness.start()
    harness.working(rl, "one")
    left_behind(harness, rl)
    before = segments(harness)
    assert rl.admin.sweep(Retention()).file_bytes == 0 and segments(harness) == before
    for path in harness.blobs.rglob("*.seg"):
        os.utime(path, (0, 0))
    assert rl.admin.sweep(Retention()).file_bytes > 150_000
    assert harness.damage(rl) == []
    figure("G18", "younger than an hour and named by no step: kept; older: swept")


@pytest.mark.guarantee("G18")
def test_after_rm_no_byte_and_no_name_is_left(harness: FilesHarness, figure: Figure) -> None:
    rl = harness.start()
    canary = os.urandom(3000)
    harness.write("SECRETNAME-canary", canary)
    one, _ = harness.working(rl, "one", "two")
    rl.files.restore(f"agent@{one}")
    rl.history.undo("agent")
    assert canary in everything(harness, rl) and b"SECRETNAME" in everything(harness, rl)
    rl.sessions.remove("agent")
    assert everything(harness, rl) == b""
    figure("G18", "after rm: 0 bytes of content, directories, notes and memory are left")


@pytest.mark.guarantee("G18")
@pytest.mark.parametrize("other", ["same directory", "running beside"])
def test_after_rm_another_session_has_what_it_needs_and_nothing_else_is_left(
    harness: FilesHarness, other: str, figure: Figure
) -> None:
    """The removed session's file is what the other's is a difference from: that one is written whole, and this goes."""
    rl = harness.start()
    canary, shared = os.urandom(2000), os.urandom(8000)
    harness.write("shared", shared + b"CANARY" + canary)
    harness.write("SECRETNAME", canary)
    one, _ = harness.working(rl, "one", "two")
    rl.files.restore(f"agent@{one}")
    (harness.root / "SECRETNAME").unlink()
    harness.write("shared", shared + b"harmless")
    rl2 = harness.start()
    s = rl2.session("other", workspace=harness.root)
    s.append(reply("1"))
    if other == "same directory":
        s.close()
    rl.sessions.remove("agent")
    left = everything(harness, rl)
    assert canary not in left and b"CANARY" not in left and b"SECRETNAME" not in left
    assert harness.damage(rl, "other") == [] and captured(rl, "other")
    if other == "running beside":
        harness.write("file", "after the removal")
        s.append(reply("2"))
        s.close()
        assert harness.damage(rl, "other") == []
    rl.files.restore("other@2", choice="force")
    assert (harness.root / "shared").read_bytes() == shared + b"harmless"
    figure("G18", f"after rm with another session ({other}): what that one needs is whole, nothing else is left")


@pytest.mark.guarantee("G18")
def test_a_snapshot_swept_before_its_step_is_taken_again(harness: FilesHarness, figure: Figure) -> None:
    rl = harness.start()
    harness.write("file", os.urandom(5000))
    with rl.session("agent", workspace=harness.root, snapshot="manual") as s:
        s.snapshot()
        pool = next(iter(rl.store.list_pools()))
        rl.store.remove_segments(pool, rl.store.list_segments(pool))  # as a sweep that found no step to need them
        s.append(reply("its snapshot is gone"))
        assert rows(rl)[-1].snapshots
        assert rl.store.list_segments(pool), "the step was committed on segments that may not be relied on"
    assert harness.damage(rl) == []
    rl.admin.sweep(AT_ONCE)
    assert harness.damage(rl) == []
    figure("G18", "a snapshot swept before its step was taken again, and is whole")


@pytest.mark.guarantee("G18")
def test_a_sweep_that_is_always_faster_costs_the_files_and_not_the_step(
    harness: FilesHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    rl = harness.start()
    harness.write("file", "x" * 100)
    with rl.session("agent", workspace=harness.root) as s:
        store, commit = rl.store, type(rl.store).commit

        def meanwhile(self: object, session: str, draft: object) -> object:
            for pool in store.list_pools():
                store.remove_segments(pool, store.list_segments(pool))
            return commit(self, session, draft)  # type: ignore[arg-type]

        monkeypatch.setattr(type(store), "commit", meanwhile)
        paid = s.append(reply("a paid reply"))
        assert paid is not None and note_at(rl, paid.seq)["files_not_captured"]
        with pytest.raises(Conflict):
            s.checkpoint("asked")
        monkeypatch.undo()
        s.append(reply("and on"))
        assert rows(rl)[-1].snapshots
    assert harness.damage(rl) == []


@pytest.mark.guarantee("G18")
def test_a_restore_whose_safety_snapshot_is_swept_takes_another(
    harness: FilesHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    rl = harness.start()
    one, _ = harness.working(rl, "one", "two")
    harness.write("mine", os.urandom(5000))
    store = rl.store
    commit = type(store).commit
    swept: list[int] = []

    def meanwhile(self: object, session: str, draft: object) -> object:
        if not swept:
            swept.append(1)
            pool = next(iter(store.list_pools()))
            store.remove_segments(pool, store.list_segments(pool))
        return commit(self, session, draft)  # type: ignore[arg-type]

    monkeypatch.setattr(type(store), "commit", meanwhile)
    rl.files.restore(f"agent@{one}")
    monkeypatch.undo()
    assert harness.read("file") == "one" and harness.damage(rl) == []
    rl.history.undo("agent")
    assert harness.read("file") == "two"


@pytest.mark.guarantee("G18")
def test_sweeps_race_commits_and_forks_and_lose_nothing(harness: FilesHarness, figure: Figure) -> None:
    rl = harness.start()
    victims: queue.SimpleQueue[str] = queue.SimpleQueue()
    ended, errors = threading.Event(), list[RelightError]()

    def sweeper() -> None:
        swept = harness.start()
        while not ended.is_set() or not victims.empty():
            try:
                swept.admin.sweep(AT_ONCE)
                swept.sessions.remove(victims.get(timeout=0.01))
            except queue.Empty:
                continue
            except RelightError as error:
                errors.append(error)

    thread = threading.Thread(target=sweeper)
    thread.start()
    steps = 0
    try:
        for turn in range(6):
            with rl.session("agent", workspace=harness.root) as s:
                for number in range(4):
                    harness.write(f"f{number}", os.urandom(3000) + b"%d" % turn)
                    s.append(reply(f"{turn}.{number}"))
                    steps += 1
            with rl.session(f"victim-{turn}", workspace=harness.root) as s:
                harness.write("victim", os.urandom(2000))
                s.append(reply("to be removed"))
            victims.put(f"victim-{turn}")
    finally:
        ended.set()
        thread.join(60)
    assert errors == []
    assert harness.damage(rl) == [], "a committed step names content that was swept"
    assert len(captured(rl)) >= steps
    figure("G18", f"{steps} steps beside a sweeper that never stops, all their files whole")


def test_the_memory_store_keeps_files_for_as_long_as_it_lives(tmp_path: Path) -> None:
    import relight

    root = tmp_path / "tree"
    root.mkdir()
    (root / "file").write_text("one")
    with relight.open("memory:") as rl:
        assert isinstance(rl.store, MemoryStore) and rl.store.blobs is None
        with rl.session("agent", workspace=root) as s:
            s.append(reply("1"))
            (root / "file").write_text("two")
            s.append(reply("2"))
        rl.files.restore("agent@2")
        assert (root / "file").read_text() == "one"
