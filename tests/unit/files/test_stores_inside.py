"""A relight store inside a workspace, this one's or another's, is never captured and never touched by a restore."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

import relight
from relight.library.facade import Relight
from relight.values.snapshot import Choice
from relight.workspaces.store_detection import Stores
from tests.support.figures import Figure
from tests.support.files_harness import reply

CHOICES: tuple[Choice, ...] = ("theirs", "ours", "force")


def working(rl: Relight, root: Path, *contents: str, name: str = "agent") -> list[int]:
    """A session in this directory that writes `file` before each reply; the seqs of its replies."""
    seqs = []
    with rl.session(name, workspace=root) as s:
        for content in contents:
            (root / "file").write_text(content)
            checkpoint = s.append(reply(content))
            assert checkpoint is not None
            seqs.append(checkpoint.seq)
    return seqs


def contents(path: Path) -> dict[str, bytes]:
    """Every file below a path, by name; of a file, itself."""
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    return {str(one): one.read_bytes() for one in files}


def left_out(rl: Relight, ref: str) -> dict[bytes, str]:
    report = rl.files.restore(ref, dry_run=True, choice="force")
    return {one.path: one.reason for plan in report.plans.values() for one in plan.left_out}


def a_store(path: Path, workspace: Path, *, name: str = "other") -> None:
    """Another program's store, with sessions, captured files and a run directory, closed properly."""
    workspace.mkdir(exist_ok=True)
    with relight.open(path) as rl:
        working(rl, workspace, "a", "b", name=name)
        rl.runs.directory(name)


@contextmanager
def as_before() -> Iterator[None]:
    """Capture like 0.1.0, which knew no store but its own blobs."""
    with pytest.MonkeyPatch.context() as patch:
        for method in ("is_store_path", "is_store_file", "is_store_directory"):
            patch.setattr(Stores, method, lambda *args: False)
        yield


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("choice", CHOICES)
def test_the_sessions_own_store_in_its_workspace_survives_every_restore(
    tmp_path: Path, choice: Choice, figure: Figure
) -> None:
    root = tmp_path / "project"
    root.mkdir()
    with relight.open(root / "relight.db") as rl:
        one, two = working(rl, root, "one", "two")
        rl.history.rewind(f"agent@{one}", files=True, choice=choice)
        assert (root / "file").read_text() == "one"
        rl.history.undo("agent")
        rl.files.restore(f"agent@{one}", choice=choice, exact=True)
        assert left_out(rl, f"agent@{two}")[b"relight.db"] == "store"
        assert rl.history.verify().problems == []
    with relight.open(root / "relight.db") as rl:
        assert [info.name for info in rl.sessions.list()] == ["agent"]
        assert rl.history.verify().problems == []
    figure("G16", f"the store in its own workspace is whole after 3 restores ({choice})")


def test_what_version_0_1_0_captured_of_a_store_is_not_put_back_over_it(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    other = root / "data" / "other.db"
    with relight.open(root / "relight.db") as rl:
        with as_before():
            a_store(other, tmp_path / "elsewhere")
            one, _ = working(rl, root, "one", "two")
        with relight.open(other) as another:
            working(another, tmp_path / "elsewhere", "c", name="later")
        before = contents(root / "data")
        for choice in CHOICES:
            rl.files.restore(f"agent@{one}", choice=choice)
            assert contents(root / "data") == before
        rl.history.rewind(f"agent@{one}", files=True, choice="ours")
        rl.files.restore(f"agent@{one}", choice="force", exact=True)
        assert contents(root / "data") == before
        assert (root / "file").read_text() == "one"
        assert rl.history.verify().problems == []
        shutil.rmtree(root / "data")
        rl.files.restore(f"agent@{one}", choice="force")
        assert not other.exists() and not list(root.glob("data/*-wal"))
        rl.history.fork(f"agent@{one}", name="branch", workspace=str(tmp_path / "branch"))
        assert (tmp_path / "branch" / "file").read_text() == "one"
        assert not [path for path in (tmp_path / "branch").rglob("*") if "db" in path.name and path.is_file()]


def test_a_log_never_comes_back_beside_a_database_that_is_in_use(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    with relight.open(tmp_path / "relight.db") as rl:
        with as_before(), relight.open(root / "other.db") as another, another.session("early-too") as s:
            s.append(reply("in the log"))
            (one,) = working(rl, root, "one")
        assert not (root / "other.db-wal").exists()
        before = contents(root / "other.db")
        rl.files.restore(f"agent@{one}", choice="force")
        assert not (root / "other.db-wal").exists() and contents(root / "other.db") == before


def test_a_store_is_known_whatever_it_is_called_and_however_deep_it_lies(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    with relight.open(tmp_path / "relight.db") as rl:
        (one,) = working(rl, root, "one")
        deep = root / "a" / "b" / "c"
        a_store(deep / "other.db", tmp_path / "elsewhere")
        for path in sorted(deep.iterdir()):
            path.rename(deep / path.name.replace("other.db", "notes.txt"))
        (deep / "notes.txt.run").rename(deep / "things")
        os.link(deep / "notes.txt", root / "linked")
        (root / "pointer").symlink_to("a/b/c/notes.txt.blobs")
        (two,) = working(rl, root, "two")
        reported = left_out(rl, f"agent@{two}")
        names = {name for name, reason in reported.items() if reason == "store"}
        assert {b"a/b/c/notes.txt", b"a/b/c/notes.txt.blobs", b"a/b/c/things", b"linked"} <= names
        before = {**contents(deep), **contents(root / "linked")}
        for seq in (one, two, one):
            rl.files.restore(f"agent@{seq}", choice="force", exact=True)
        assert {**contents(deep), **contents(root / "linked")} == before
        with relight.open(deep / "notes.txt") as another:
            assert another.history.verify().problems == []


def test_a_store_that_was_made_this_moment_is_known_by_its_log(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    with relight.open(tmp_path / "relight.db") as rl, relight.open(root / "fresh.db") as fresh:
        with fresh.session("s") as s:
            s.append(reply("in the log alone"))
            head = (root / "fresh.db").read_bytes()[:100]
            (seq,) = working(rl, root, "one")
        assert int.from_bytes(head[68:72], "big") == 0, "written back already: this proves nothing"
        assert left_out(rl, f"agent@{seq}")[b"fresh.db"] == "store"
        assert left_out(rl, f"agent@{seq}")[b"fresh.db-wal"] == "store"


def test_a_hard_link_to_the_own_store_is_known_while_its_content_is_in_the_log(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    with relight.open(tmp_path / "relight.db") as rl, rl.session("agent", workspace=root) as s:
        s.append(reply("in the log alone"))
        for number, suffix in enumerate(("", "-wal", "-shm", "-told")):
            os.link(tmp_path / f"relight.db{suffix}", root / f"linked{number}")
        assert int.from_bytes((root / "linked0").read_bytes()[68:72], "big") == 0, "written back already"
        s.append(reply("captured"))
        assert list(rl.files.list("agent")) == []
    with relight.open(tmp_path / "relight.db") as rl:
        rl.files.restore("agent", choice="force", exact=True)
        assert {one.name for one in root.iterdir()} >= {"linked0", "linked3"}


def test_a_file_that_becomes_a_store_later_takes_what_is_beside_it_along(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "x").touch()
    (root / "x.run").mkdir()
    (root / "x.run" / "log").write_text("captured before anybody could know")
    with relight.open(tmp_path / "relight.db") as rl:
        (one,) = working(rl, root, "one")
        a_store(tmp_path / "x", tmp_path / "elsewhere")
        os.replace(tmp_path / "x", root / "x")
        (two,) = working(rl, root, "two")
        assert {b"x", b"x.run"} <= left_out(rl, f"agent@{two}").keys()
        before = (root / "x").read_bytes()
        rl.files.restore(f"agent@{one}", choice="force", exact=True)
        assert (root / "x").read_bytes() == before and (root / "x.run" / "log").exists()


def test_databases_of_others_are_captured_as_ever(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    connection = apsw.Connection(str(root / "app.db"))
    connection.execute("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
    connection.close()
    (root / "app.db.run").mkdir()
    (root / "app.db.run" / "pid").write_text("1")
    with relight.open(tmp_path / "relight.db") as rl:
        (one,) = working(rl, root, "one")
        assert left_out(rl, f"agent@{one}") == {}
        before = (root / "app.db").read_bytes()
        (root / "app.db").unlink()
        shutil.rmtree(root / "app.db.run")
        rl.files.restore(f"agent@{one}", choice="force")
        assert (root / "app.db").read_bytes() == before and (root / "app.db.run" / "pid").exists()
