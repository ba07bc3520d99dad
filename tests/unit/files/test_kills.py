"""SIGKILL at every fault point on the way of files into and out of the store: whole or absent, target or original."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import relight
from relight.errors import NotFound
from relight.history.loading import resolve
from relight.library.facade import Relight
from relight.ports import faults
from relight.testing.workspace_kit import Picture, picture
from tests.conftest import PROOF
from tests.support.child_processes import ForkServer
from tests.support.figures import Figure
from tests.support.files_harness import rows, verify

pytestmark = pytest.mark.crash

SNAPSHOT = [name for name in faults.POINTS if name.startswith("snapshot.")]
RESTORE = [name for name in faults.POINTS if name.startswith("restore.")]
COMMIT = [name for name in faults.POINTS if name.startswith("commit.")]
SOME = ["restore.begun", "restore.swapped", "restore.noted", "commit.written", "commit.committed"]
NEW_SEGMENT = ("snapshot.segment_rowed", "snapshot.segment_created")


class Scene:
    """One store, one tree, and processes of which one is killed."""

    def __init__(self, path: Path, fork_server: ForkServer) -> None:
        self.store, self.root, self._fork_server = path / "relight.db", path / "tree", fork_server
        self.root.mkdir()
        self.do("prepare")
        self.now = picture(self.root)
        self.do("restore")
        self.then = picture(self.root)
        self.do("undo")
        assert picture(self.root) == self.now

    def do(self, verb: str, fault: str = "") -> bool:
        """Whether it was killed on the way."""
        child = self._fork_server.run("file_op", fault, store=self.store, tree=self.root, verb=verb)
        child.wait()
        assert child.was_killed or child.status == 0, child.said
        return child.was_killed

    def try_to(self, verb: str) -> str:
        """The name of the error, or nothing."""
        child = self._fork_server.run("file_op", store=self.store, tree=self.root, verb=verb)
        child.wait()
        return child.said.partition(":")[0]

    def edit_mine(self, number: int) -> None:
        """The user's own file changes, so that the safety snapshot has something new to hold."""
        (self.root / "mine").write_bytes(b"%d: no snapshot of the session holds this" % number)
        for one in (self.then, self.now):
            one[b"mine"] = ("file", one[b"mine"][1], (self.root / "mine").read_bytes())

    def look(self) -> Picture:
        found = picture(self.root)
        assert not [path for path in found if b".relight-" in path], "something of the restore was left in the tree"
        return found

    def check_whole(self) -> int:
        """No checkpoint names a snapshot whose content is not all there."""
        with opened(self.store) as rl:
            identity = resolve(rl.store, "agent").identity
            held = [pair for row in rows(rl) for pair in row.snapshots.items()]
            assert [problem for name, one in held for problem in verify(rl, identity, name, one)] == []
            return len(held)


class opened:
    """A store in this process, closed again."""

    def __init__(self, store: Path) -> None:
        self._rl = relight.open(store)

    def __enter__(self) -> Relight:
        return self._rl

    def __exit__(self, *_: object) -> None:
        self._rl.close()


@pytest.fixture
def scene(memory_path: Path, fork_server: ForkServer) -> Iterator[Scene]:
    yield Scene(memory_path, fork_server)


def nths(name: str) -> tuple[int, ...]:
    """Which visits of a point are worth a kill: an operation commits twice."""
    return (1, 2) if name.startswith("commit.") else tuple(range(1, 9)) if PROOF else (1,)


def pairs() -> list[tuple[str, str]]:
    """Each point with each operation; in the suite a rewind, which differs only in its commits, with some."""
    points = [*RESTORE, *COMMIT, *(name for name in SNAPSHOT if name not in NEW_SEGMENT)]
    some = [*COMMIT, "restore.begun", "restore.acted"]
    return [(name, "restore") for name in points] + [(name, "rewind") for name in (points if PROOF else some)]


@pytest.mark.guarantee("G2")
@pytest.mark.parametrize("name", [*SNAPSHOT, *COMMIT])
def test_a_killed_append_leaves_every_named_snapshot_whole(scene: Scene, name: str, figure: Figure) -> None:
    kills = held = 0
    for nth in (1, 3):
        if name in NEW_SEGMENT:
            for own in (scene.store.parent / "relight.db.blobs").rglob("*.seg"):
                with own.open("ab") as file:
                    file.write(b"torn")  # nobody goes on in a segment with a torn tail
        kills += scene.do("append", f"{name}:{nth}:kill")
        held = scene.check_whole()
    scene.do("append")
    assert scene.check_whole() >= held
    assert kills, "the point was never visited"
    figure("G2", f"{kills} kills of an append at {name}, every named snapshot whole")


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize(("name", "verb"), pairs())
def test_a_killed_restore_ends_at_the_target_or_at_the_original(
    scene: Scene, name: str, verb: str, figure: Figure
) -> None:
    kills = 0
    for nth in nths(name):
        scene.edit_mine(nth)
        kills += scene.do(verb, f"{name}:{nth}:kill")
        scene.check_whole()
        scene.do(verb)
        assert scene.look() == scene.then, f"killed at {name}:{nth}, then the same again"
        scene.do("undo")
        assert scene.look() == scene.now, f"killed at {name}:{nth}, the same again, then undone"
        scene.edit_mine(nth + 10)
        kills += scene.do(verb, f"{name}:{nth}:kill")
        error = scene.try_to("undo")
        assert error in ("", NotFound.__name__), error
        assert scene.look() == scene.now, f"killed at {name}:{nth}, then undone"
        scene.check_whole()
    assert kills, "the point was never visited"
    figure("G16", f"{kills} kills of a {verb} at {name}: target or original, never a mix")


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("name", [*RESTORE, *COMMIT] if PROOF else SOME)
def test_a_killed_undo_is_undone_by_undo_and_redone_by_redo(scene: Scene, name: str, figure: Figure) -> None:
    kills = 0
    for nth in nths(name):
        scene.do("rewind")
        kills += scene.do("undo", f"{name}:{nth}:kill")
        scene.try_to("undo")  # NotFound where the kill came after the end
        assert scene.look() == scene.now, f"killed at {name}:{nth}"
        kills += scene.do("redo", f"{name}:{nth}:kill")
        scene.try_to("redo")
        assert scene.look() == scene.then, f"killed at {name}:{nth}"
        scene.do("undo")
        assert scene.look() == scene.now
    scene.check_whole()
    assert kills, "the point was never visited"
    figure("G16", f"{kills} kills of undo and redo at {name}: done by the next one")
