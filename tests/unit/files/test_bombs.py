"""A bundle of a few kilobytes that says it is small: refused by import, and harmless where an older version took it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import relight
from relight.errors import BundleRefused
from relight.journal import bundle
from tests.support.figures import Figure
from tests.support.programs import bombs

ROOT = Path(__file__).parents[3]
REFUSED = {"chunks": "has 60000 chunks", "tree": "1,608,040,200 names", "longer": "is not the 3 bytes"}


@pytest.mark.parametrize("kind", REFUSED)
def test_import_refuses_what_is_not_as_large_as_it_says(tmp_path: Path, kind: str) -> None:
    made = bombs.build(kind, tmp_path)
    with relight.open(tmp_path / "v.db") as rl:
        with pytest.raises(BundleRefused, match=REFUSED[kind]):
            rl.history.import_(str(made), workspace=str(tmp_path / "w"))
        assert list(rl.sessions.list()) == [] and rl.history.verify().problems == []


def test_import_refuses_files_that_no_step_names(tmp_path: Path) -> None:
    """The digest covers the body, which says which snapshot was taken; the row beside it is compared with that."""
    made = bombs.build("longer", tmp_path)
    with made.open("rb") as file:
        frames = list(bundle.frames(file, made.stat().st_size))
    with made.open("wb") as file:
        writer = bundle.Writer(file)
        for one in frames:
            if isinstance(one, bundle.Manifest):
                writer.manifest(one)
            elif isinstance(one, bundle.StepRow):
                other = [(0, "sha256:" + "0" * 64)] if one.snapshots else []
                writer.step(msgspec.structs.replace(one, snapshots=other))
        writer.end(None)
    with relight.open(tmp_path / "v.db") as rl, pytest.raises(BundleRefused, match="differ from those"):
        rl.history.import_(str(made), workspace=str(tmp_path / "w"))


@pytest.mark.guarantee("G27")
@pytest.mark.parametrize("kind", bombs.KINDS)
def test_one_that_is_in_the_store_costs_neither_memory_nor_disk(tmp_path: Path, kind: str, figure: Figure) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.programs.bombs", kind, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    reported = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert reported.keys() == {"verify", "diff", "fork", "drill", "peak_mb", "disk_mb"}, done.stdout
    assert int(reported["peak_mb"]) < 256 and int(reported["disk_mb"]) < 50, done.stdout
    if kind != "honest":
        assert all("says" in reported[verb] or "names" in reported[verb] for verb in ("verify", "fork", "drill")), (
            done.stdout
        )
    figure("G27", f"verify, diff, fork, drill of a bomb of {kind}: {reported['peak_mb']} MB at most, named")


def test_a_bundle_from_elsewhere_brings_no_mode_that_gives_rights_away(tmp_path: Path) -> None:
    root = tmp_path / "w"
    (root / "d").mkdir(parents=True)
    for name, mode in (("su", 0o6755), ("everybody", 0o666), ("plain", 0o640), ("d", 0o3777)):
        if name != "d":
            (root / name).write_text("#!/bin/sh\n")
        (root / name).chmod(mode)
    with relight.open(tmp_path / "a.db") as rl:
        with rl.session("x", workspace=root) as s:
            s.append({"role": "user", "content": "x"})
        rl.history.export("x", str(tmp_path / "b.relight"))
        rl.history.fork("x", name="own", workspace=str(tmp_path / "own"))
    assert (tmp_path / "own" / "su").stat().st_mode & 0o7777 == 0o6755
    with relight.open(tmp_path / "v.db") as rl:
        rl.history.import_(str(tmp_path / "b.relight"), workspace=str(tmp_path / "vw"))
        rl.history.fork("x", name="y", workspace=str(tmp_path / "f"))
        rl.history.fork("y", name="z", workspace=str(tmp_path / "g"))
        for made in ("f", "g"):
            modes = {path.name: path.stat().st_mode & 0o7777 for path in (tmp_path / made).iterdir()}
            assert modes == {"su": 0o755, "everybody": 0o664, "plain": 0o640, "d": 0o775}
        (tmp_path / "f" / "su").unlink()
        (plan,) = rl.files.restore("y", dry_run=True).plans.values()
        assert [(one.path, "instead of 6755" in one.reason) for one in plan.decision.kept] == [(b"su", True)]
