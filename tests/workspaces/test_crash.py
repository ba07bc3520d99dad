"""SIGKILL at every fault point of snapshot, restore, undo and sweep: whole or absent, target or original."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from relight.ports import faults
from relight.testing.workspace_kit import picture
from tests.figures import Figure
from tests.workspaces.trees import open_tree

pytestmark = pytest.mark.crash

REPO = Path(__file__).resolve().parents[2]
SNAPSHOT = [name for name in faults.POINTS if name.startswith("snapshot.")]
RESTORE = [name for name in faults.POINTS if name.startswith("restore.")]
SWEEP = [name for name in faults.POINTS if name.startswith("sweep.")]

CHILD = """
import sys
from pathlib import Path
from tests.workspaces.trees import open_tree
what, root, home, *ids = sys.argv[1:]
w = open_tree(Path(root), Path(home))
if what == "snapshot":
    print("id", w.snapshot().id, flush=True)
elif what == "restore":
    w.restore(w.plan_restore(ids[0], last=ids[1], history=ids, choice="force"))
elif what == "undo":
    w.restore(w.plan_undo(choice="force"))
elif what == "sweep":
    w.sweep(lambda: ids, thorough=True)
w.close()
"""


def child(what: str, root: Path, home: Path, *ids: str, fault: str = "") -> tuple[int, str]:
    env = {**os.environ, "PYTHONPATH": f"{REPO}{os.pathsep}{os.environ.get('PYTHONPATH', '')}", "RELIGHT_FAULT": fault}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, what, str(root), str(home), *ids],
        env=env,
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode, done.stdout


def grow(root: Path) -> None:
    """A tree in which a restore has everything to do: write, replace, delete, file for directory and back."""
    (root / "a/b").mkdir(parents=True)
    (root / "x").mkdir()
    (root / "a/keep").write_bytes(b"the same")
    (root / "a/edit").write_bytes(b"one" * 500)
    (root / "a/gone").write_bytes(b"only then")
    (root / "a/b/file").write_bytes(b"file in a directory")
    (root / "x/inner").write_bytes(b"inner")
    (root / "y").write_bytes(b"a file that becomes a directory")
    os.symlink("a/edit", root / "link")


def change(root: Path) -> None:
    (root / "a/edit").write_bytes(b"two" * 400)
    (root / "a/gone").unlink()
    (root / "a/new").write_bytes(b"only now")
    (root / "x/inner").unlink()
    (root / "x").rmdir()
    (root / "x").write_bytes(b"a file where a directory was")
    (root / "y").unlink()
    (root / "y/z").mkdir(parents=True)
    (root / "y/z/deep").write_bytes(b"deep")
    (root / "link").unlink()
    os.symlink("elsewhere", root / "link")
    (root / "a/b").chmod(0o700)


def prepared(tmp_path: Path) -> tuple[Path, Path, list[str], list[dict[bytes, tuple[str, int, bytes]]]]:
    root, home = tmp_path / "tree", tmp_path / "home"
    root.mkdir()
    grow(root)
    ids, pictures = [], []
    with open_tree(root, home) as workspace:
        ids.append(workspace.snapshot().id)
        pictures.append(picture(root))
        change(root)
        ids.append(workspace.snapshot().id)
        pictures.append(picture(root))
    (root / "mine").write_bytes(b"no snapshot of the session holds this")
    for one in pictures:
        one[b"mine"] = ("file", (root / "mine").stat().st_mode & 0o7777, b"no snapshot of the session holds this")
    return root, home, ids, pictures


def visits(name: str, run: Callable[[str], int], most: int) -> int:
    """Kill at the first, second, ... visit of a point until a run survives; how many kills there were."""
    for nth in range(1, most + 1):
        if run(f"{name}:{nth}:kill") == 0:
            return nth - 1
    return most


@pytest.mark.guarantee("G2")
@pytest.mark.parametrize("name", SNAPSHOT)
def test_a_killed_snapshot_leaves_every_named_one_whole(tmp_path: Path, name: str, figure: Figure) -> None:
    root, home, ids, _ = prepared(tmp_path)
    if name in ("snapshot.segment_rowed", "snapshot.segment_created"):
        home, ids = tmp_path / "fresh", []  # where no segment can be gone on with
    kills = 0
    for nth in (1, 3):
        (root / "a/edit").write_bytes(os.urandom(5000))
        code, said = child("snapshot", root, home, fault=f"{name}:{nth}:kill")
        kills += code != 0
        with open_tree(root, home) as workspace:
            fresh = workspace.snapshot()
            for one in [*ids, fresh.id, *(line.split()[1] for line in said.splitlines())]:
                assert workspace.verify(one) == (), f"killed at {name}"
            assert workspace.read(fresh.id, b"a/edit") == (root / "a/edit").read_bytes()
            assert set(fresh.segments) <= workspace.pool.rowed
    assert kills > 0, "the point was never visited"
    figure("G2", f"{kills} kills at {name}, every named snapshot whole")


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("name", RESTORE)
def test_a_killed_restore_ends_at_the_target_or_at_the_original(
    tmp_path: Path, name: str, figure: Figure, sample: Callable[..., int]
) -> None:
    root, home, ids, (then, now) = prepared(tmp_path)
    most = sample(2, proof=50)

    def forward(fault: str) -> int:
        code, _ = child("restore", root, home, *ids, fault=fault)
        if code:
            code_again, _ = child("restore", root, home, *ids)
            assert code_again == 0
        assert picture(root) == then, fault
        back, _ = child("undo", root, home)
        assert back == 0 and picture(root) == now, f"{fault}, then undone"
        return code

    def backward(fault: str) -> int:
        code, _ = child("restore", root, home, *ids, fault=fault)
        back, _ = child("undo", root, home)
        assert back == 0 and picture(root) == now, fault
        return code

    kills = visits(name, forward, most) + visits(name, backward, most)
    assert kills > 0, "the point was never visited"
    assert not [path for path in picture(root) if b".relight-" in path]
    figure("G16", f"{kills} kills at {name}: target or original, never a mix")


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("name", ["restore.begun", "restore.swapped", "restore.set_aside", "restore.acted"])
def test_a_killed_undo_is_undone_by_undo(tmp_path: Path, name: str) -> None:
    root, home, ids, (then, now) = prepared(tmp_path)
    child("restore", root, home, *ids)
    assert picture(root) == then
    code, _ = child("undo", root, home, fault=f"{name}:1:kill")
    assert code != 0
    child("undo", root, home)
    assert picture(root) == now


def test_what_somebody_wrote_into_an_interrupted_restore_is_kept(tmp_path: Path) -> None:
    """Killed between swap and look: the displaced content is unknown to every snapshot, so it must not go."""
    root, home, ids, _ = prepared(tmp_path)
    code, _ = child("restore", root, home, *ids, fault="restore.swapped:1:kill")
    assert code != 0
    [displaced] = [path for path in root.rglob("*") if ".relight-tmp-" in path.name and not path.name.endswith("p")]
    displaced.write_bytes(b"written by somebody else in that very moment")
    child("restore", root, home, *ids)
    kept = [path for path in root.rglob("*") if ".relight-saved-" in path.name]
    assert [path.read_bytes() for path in kept] == [b"written by somebody else in that very moment"]


@pytest.mark.guarantee("G18")
@pytest.mark.parametrize("name", SWEEP)
def test_a_killed_sweep_loses_nothing_and_the_next_one_ends_it(tmp_path: Path, name: str, figure: Figure) -> None:
    root, home, ids, _ = prepared(tmp_path)
    code, _ = child("sweep", root, home, ids[1], fault=f"{name}:1:kill")
    assert code != 0
    with open_tree(root, home) as workspace:
        assert workspace.verify(ids[1]) == ()
        fresh = workspace.snapshot()
        assert set(fresh.segments) <= workspace.pool.rowed, "a snapshot relies on a segment that lost its row"
        assert workspace.verify(fresh.id) == ()
        workspace.sweep(lambda: [ids[1], fresh.id], thorough=True)
        assert workspace.verify(ids[1]) == () and workspace.verify(fresh.id) == ()
        assert set(workspace.pool.files()) == set(workspace.pool.rowed)
    figure("G18", f"a sweep killed at {name}, nothing lost")
