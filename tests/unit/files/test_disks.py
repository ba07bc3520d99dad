"""Read-only and full disks, odd umasks, directories of somebody else: what can be read is read, nothing is left."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import relight
from relight.cli.maintenance.export import _write_all
from relight.cli.render.errors import _wrapped
from relight.errors import StoreFull, StoreReadOnly, StoreUnavailable
from relight.library.facade import Relight
from relight.server.state import ServerState
from tests.support import mounting
from tests.support.files_harness import reply, user


@pytest.fixture(autouse=True)
def any_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Captures go on however little is free."""
    monkeypatch.setenv("RELIGHT_FREE_FLOOR", "none")


def worked(store: Path, root: Path) -> None:
    """A finished session with two versions of a file."""
    root.mkdir(parents=True, exist_ok=True)
    with relight.open(store) as rl, rl.session("a", workspace=root) as s:
        (root / "file").write_text("one")
        s.append(user("one"))
        (root / "file").write_text("two")
        s.append(reply(os.urandom(20_000).hex()))
        s.complete("x")


def looked(rl: Relight, out: Path) -> None:
    """All that only reads."""
    assert rl.history.verify().problems == []
    assert [info.name for info in rl.sessions.list()] == ["a"]
    assert [one.path for one in rl.files.diff("a@2", "a@3")] == ["file"]
    assert [one.path for one in rl.files.diff("a@2")] == ["file"]
    assert rl.files.read("a@2", "file") == b"one"
    assert rl.runs.plan("a").session == rl.sessions.get("a").id
    assert len(rl.admin.sweep(dry_run=True)) == 0
    assert rl.files.restore("a@2", dry_run=True).plans
    rl.history.export("a", str(out))


def test_a_store_that_can_only_be_read_is_read(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with mounting.small_disk(disk, "8m"):
        worked(disk / "a.db", disk / "w")
        mounting.make_read_only(disk)
        with relight.open(disk / "a.db") as rl:
            looked(rl, tmp_path / "a.relight")
            with pytest.raises(StoreReadOnly):
                rl.sessions.remove("a")
    with relight.open(tmp_path / "b.db") as rl:
        assert rl.history.import_(str(tmp_path / "a.relight"), workspace=str(tmp_path / "w")).steps == 4


def test_on_a_full_disk_everything_can_be_looked_at(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with mounting.small_disk(disk, "8m"):
        worked(disk / "a.db", disk / "w")
        with pytest.raises(OSError, match="No space"), (disk / "ballast").open("wb", buffering=0) as ballast:
            while ballast.write(bytes(4096)):
                pass
        with relight.open(disk / "a.db") as rl:
            looked(rl, tmp_path / "a.relight")
            with pytest.raises(StoreFull) as reported:
                rl.sessions.remove("a")
            assert "free" in str(reported.value.hints)
            with pytest.raises(StoreFull):
                rl.history.export("a", str(disk / "a.relight"))
        before = sorted(path.name for path in disk.iterdir())
        with pytest.raises(StoreFull):
            _write_all(disk / "json", ((f"{number}.json", "x" * 5000) for number in range(100)))
        assert sorted(path.name for path in disk.iterdir()) == before
        (disk / "ballast").unlink()
        with relight.open(disk / "a.db") as rl:
            assert rl.history.verify().problems == []
            rl.sessions.remove("a")


def test_what_the_machine_refuses_has_a_code_and_a_cure() -> None:
    full, files = (
        _wrapped(OSError(28, "No space left on device", "/x")),
        _wrapped(OSError(24, "Too many open files")),
    )
    assert (full.code, files.code) == (StoreFull.code, StoreUnavailable.code)
    assert "ulimit" in str(files.hints) and "open" in files.message


@contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.guarantee("G26")
@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_what_relight_makes_is_the_users_own_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    (tmp_path / "w").mkdir()
    with umask(mask):
        worked_in = own / "deep" / "below" / "a.db"
        with relight.open(worked_in) as rl:
            with rl.session("a", workspace=tmp_path / "w") as s:
                s.append(user("one"))
            rl.files.restore("a")
            ServerState(rl.runs.directory("a").parent / "server").close()
            rl.history.export("a", str(own / "a.relight"))
        _write_all(own / "json" / "below" / "a", [("session.json", {})])
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in own.rglob("*")}
    assert {f"{mode:o}" for path, mode in modes.items() if path.is_dir()} == {"700"}
    assert {f"{mode:o}" for path, mode in modes.items() if path.is_file()} == {"600"}, modes


def test_a_run_directory_that_others_could_write_is_refused_by_name(tmp_path: Path) -> None:
    worked(tmp_path / "a.db", tmp_path / "w")
    run = tmp_path / "a.db.run"
    run.mkdir()
    with relight.open(tmp_path / "a.db") as rl:
        run.chmod(0o755)
        rl.runs.directory("a")
        assert stat.S_IMODE(run.stat().st_mode) == 0o700
        run.chmod(0o777)
        with pytest.raises(StoreUnavailable, match=r"a\.db\.run: other users can write"):
            rl.runs.directory("a")
        run.chmod(0o700)
        if os.geteuid() == 0:
            os.chown(run, 12345, 12345)
            with pytest.raises(StoreUnavailable, match=r"a\.db\.run: it belongs to another user"):
                rl.runs.directory("a")
