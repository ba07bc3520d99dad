"""`relight backup`: the store of one moment with its files, verified; before that, nothing that looks whole."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import apsw
import pytest

import relight
from relight.errors import Corrupt, Refused
from tests.integration.acceptance.conftest import Addresses
from tests.integration.acceptance.test_copy import fill, heads


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])
def test_a_backup_is_a_store_with_all_sessions_and_their_files(
    kind: str, address_of: Addresses, tmp_path: Path
) -> None:
    kept = tmp_path / "monday.db"
    with relight.open(address_of(kind, tmp_path)) as rl:
        fill(rl, tmp_path / "shop")
        done = rl.admin.backup(kept)
        assert (done.sessions, done.files) == (4, f"{kept}.blobs")
        expected = heads(rl)
        with pytest.raises(Refused, match="exists already"):
            rl.admin.backup(kept)
    assert sorted(path.name for path in tmp_path.glob("monday*")) == ["monday.db", "monday.db.blobs"]
    with relight.open(kept) as there:
        assert heads(there) == expected and there.history.verify().problems == []
        assert there.files.read("root@green", "a.txt") == b"first"
        assert there.sessions.search("three").hits[0].name == "fork"


def test_a_backup_of_a_store_that_is_written_to_is_one_moment_of_it(tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        fill(rl, tmp_path / "shop")
        with rl.session("busy") as s:
            for number in range(50):
                s.append(user(f"{number} " + "x" * 5000))
            stop, begun = threading.Event(), threading.Event()

            def write() -> None:
                while not stop.is_set():
                    s.append(user("more"))
                    begun.set()

            writer = threading.Thread(target=write)
            writer.start()
            try:
                assert begun.wait(30)
                pieces: list[tuple[str, int, int]] = []
                rl.admin.backup(tmp_path / "live.db", progress=lambda *piece: pieces.append(piece))
            finally:
                stop.set()
                writer.join()
        assert {what for what, _, _ in pieces} == {"copying pages", "copying files", "verifying"}
        with relight.open(tmp_path / "live.db") as there:
            steps = len(there.history.checkpoints("busy"))
            assert 50 < steps <= len(rl.history.checkpoints("busy")) and there.history.verify().problems == []


def test_a_backup_that_ends_early_or_finds_damage_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    def kill(what: str, done: int, total: int) -> None:
        if what == "verifying":
            raise Killed

    with relight.open(tmp_path / "r.db") as rl:
        fill(rl, tmp_path / "shop")
        with pytest.raises(Killed):
            rl.admin.backup(tmp_path / "cut.db", progress=kill)
        with apsw.Connection(str(tmp_path / "r.db")) as other:
            other.execute("UPDATE bodies SET data = zeroblob(length(data)) WHERE id = 3")
        other.close()
        with pytest.raises(Corrupt):
            rl.admin.backup(tmp_path / "bad.db")
    assert list(tmp_path.glob("cut*")) == list(tmp_path.glob("bad*")) == []
