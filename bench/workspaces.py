"""Workspace snapshots beside git with a private index, in the same run: the tables of the performance page.

    python -m bench.workspaces [--files 1000,10000,50000] [--json FILE] [--rounds N] [--no-git]

Every figure is a median of interleaved rounds on one tree; ratios are against git in the same run, since absolute
times drift from machine to machine. Ours is durable (segment synced) in every figure; git is not asked to sync. The
floor reads, hashes and appends the same changed files, with one fdatasync. Disk is allocated blocks. git runs with an
index and an object store of its own, never in the workspace's.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from relight.testing.workspace_kit import FileSegments
from relight.workspaces.changes import native
from relight.workspaces.policy import TreePolicy
from relight.workspaces.workspace import TreeWorkspace

FILES_A_DIRECTORY = 20
DIRECTORIES_A_DIRECTORY = 25
CHANGED = 3
WORDS = ["def", "return", "import", "self", "value", "for", "in", "if", "else", "class", "None", "with", "as", "try"]


def make_tree(root: Path, files: int, seed: int = 7) -> list[Path]:
    """Source-like files of 1 to 20 KB, some twenty a directory."""
    chance = random.Random(seed)
    line = [
        " " * chance.randrange(0, 12) + " ".join(chance.choices(WORDS, k=chance.randrange(3, 12))) for _ in range(4000)
    ]
    paths = []
    for number in range(files):
        group = number // FILES_A_DIRECTORY
        directory = root / f"pkg{group // DIRECTORIES_A_DIRECTORY:03d}" / f"mod{group % DIRECTORIES_A_DIRECTORY:02d}"
        if number % FILES_A_DIRECTORY == 0:
            directory.mkdir(parents=True, exist_ok=True)
        size, text = chance.randrange(1024, 20 * 1024), []
        while size > 0:
            text.append(f"{chance.choice(line)}  # {chance.getrandbits(24):x}")
            size -= len(text[-1]) + 1
        path = directory / f"file{number:05d}.py"
        path.write_text("\n".join(text) + "\n")
        paths.append(path)
    return paths


class Git:
    """git with a private index and object store: the strongest of the sequences that agents use."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root, self.home = root, home
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "GIT_DIR": str(home / "git"),
            "GIT_WORK_TREE": str(root),
            "GIT_INDEX_FILE": str(home / "index"),
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        self._run("init", "-q")
        self._run("config", "gc.auto", "0")

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], env=self.env, cwd=self.root, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def snapshot(self) -> str:
        self._run("add", "-A")
        return self._run("write-tree")

    def restore(self, tree: str) -> None:
        """A safety snapshot first, as ours; then only what differs is written."""
        self.snapshot()
        self._run("read-tree", "-u", "--reset", tree)


def allocated(path: Path) -> int:
    return sum(os.lstat(os.path.join(at, name)).st_blocks * 512 for at, _, names in os.walk(path) for name in names)


def timed(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1000


def edit(paths: list[Path], chance: random.Random, count: int = CHANGED) -> list[Path]:
    edited = chance.sample(paths, count)
    for path in edited:
        with path.open("a") as file:
            file.write(f"# edited {chance.getrandbits(64):x}\n")
    return edited


class Floor:
    """What nobody can do without: read what changed, hash it, append it, sync."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.changed: list[Path] = []

    def run(self) -> None:
        for path in self.changed:
            data = path.read_bytes()
            hashlib.sha256(data).digest()
            os.write(self._fd, data)
        if self.changed:
            os.fdatasync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


class Ours:
    def __init__(self, root: Path, home: Path, *, watch: bool) -> None:
        self.root, self.home = root, home
        self.workspace = TreeWorkspace(
            root,
            blobs=home / "blobs",
            rows=FileSegments(home / "rows"),
            policy=TreePolicy(watch=watch, audit_seconds=1e9),
        )

    def restore(self, target: str, last: str) -> None:
        plan = self.workspace.plan_restore(target, last=last, history=[target, last])
        self.workspace.restore(plan)


def measure(files: int, rounds: int, with_git: bool) -> dict[str, Any]:
    scratch = Path(tempfile.mkdtemp(prefix="relight-bench-", dir=os.environ.get("RELIGHT_BENCH_DIR")))
    chance = random.Random(11)
    try:
        root = scratch / "tree"
        root.mkdir()
        paths = make_tree(root, files)
        os.sync()
        walk, watch = Ours(root, scratch / "walk", watch=False), Ours(root, scratch / "watch", watch=True)
        git = Git(root, scratch) if with_git else None
        found: dict[str, Any] = {"files": files, "native": native.load() is not None}
        found["first"] = {"walk": timed(walk.workspace.snapshot), "watch": timed(watch.workspace.snapshot)}
        if git is not None:
            found["first"]["git"] = timed(git.snapshot)
        found["store_mb"] = {"ours": allocated(scratch / "walk" / "blobs") / 1e6}
        if git is not None:
            found["store_mb"]["git"] = allocated(scratch / "git") / 1e6
        contenders: dict[str, Callable[[], Any]] = {"watch": watch.workspace.snapshot, "walk": walk.workspace.snapshot}
        if git is not None:
            contenders["git"] = git.snapshot
        floor = Floor(scratch / "floor")

        def change() -> None:
            floor.changed = edit(paths, chance)

        found["changed"] = _rounds({**contenders, "floor": floor.run}, rounds, change)
        found["nothing"] = _rounds(contenders, rounds, lambda: None)
        floor.close()
        for count in (3, 100):
            found[f"restore_{count}"] = _restores(walk, watch, git, paths, chance, rounds, count)
        found["disk_100"] = _disk(watch, git, scratch, paths, chance)
        walk.workspace.close()
        watch.workspace.close()
        opening = [_reopened(root, scratch / "walk") for _ in range(3)]
        found["reopened"] = {"open": min(one for one, _ in opening), "walk": min(one for _, one in opening)}
        return found
    finally:
        shutil.rmtree(scratch)


def _reopened(root: Path, home: Path) -> tuple[float, float]:
    """As another process finds it: (open and remember, first walk)."""
    start = time.perf_counter()
    again = Ours(root, home, watch=False)
    opened = (time.perf_counter() - start) * 1000
    walked = timed(again.workspace.snapshot)
    again.workspace.close()
    return opened, walked


def _rounds(contenders: dict[str, Callable[[], Any]], rounds: int, before: Callable[[], None]) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        before()
        time.sleep(0.03)  # a file written this moment would be read twice
        for name, call in contenders.items():
            times[name].append(timed(call))
    return {name: statistics.median(values) for name, values in times.items()}


def _restores(
    walk: Ours, watch: Ours, git: Git | None, paths: list[Path], chance: random.Random, rounds: int, count: int
) -> dict[str, float]:
    """Edit, snapshot, restore what was before; the safety snapshot is part of the time, as it is of git's."""
    times: dict[str, list[float]] = {name: [] for name in ("watch", "walk", *(["git"] if git else []))}
    for _ in range(max(3, rounds // 3)):
        for name, ours in (("watch", watch), ("walk", walk)):
            target = ours.workspace.snapshot().id
            edit(paths, chance, min(count, len(paths)))
            last = ours.workspace.snapshot().id
            times[name].append(timed(partial(ours.restore, target, last)))
        if git is not None:
            tree = git.snapshot()
            edit(paths, chance, min(count, len(paths)))
            git.snapshot()
            times["git"].append(timed(partial(git.restore, tree)))
    return {name: statistics.median(values) for name, values in times.items()}


def _disk(watch: Ours, git: Git | None, scratch: Path, paths: list[Path], chance: random.Random) -> dict[str, float]:
    """What 100 snapshots of three changed files add, in allocated kilobytes."""
    watch.workspace.snapshot()
    if git is not None:
        git.snapshot()
    ours, theirs = allocated(scratch / "watch" / "blobs"), allocated(scratch / "git") if git else 0
    for _ in range(100):
        edit(paths, chance)
        watch.workspace.snapshot()
        if git is not None:
            git.snapshot()
    found = {"ours": (allocated(scratch / "watch" / "blobs") - ours) / 1024}
    if git is not None:
        found["git"] = (allocated(scratch / "git") - theirs) / 1024
    return found


def goals(found: dict[str, Any]) -> list[tuple[str, float, str, bool]]:
    """(goal, measured, bound, met)."""
    rows = [
        ("3 changed, watcher, ms", found["changed"]["watch"], "≤ 2", found["changed"]["watch"] <= 2),
        ("nothing changed, watcher, ms", found["nothing"]["watch"], "≤ 0.3", found["nothing"]["watch"] <= 0.3),
        ("opening again, ms", found["reopened"]["open"], "≤ 300", found["reopened"]["open"] <= 300),
    ]
    if "git" not in found["changed"]:
        return rows

    def ratio(what: str, key: str, one: str, other: str, bound: float, *, most: bool) -> None:
        value = found[key][one] / found[key][other]
        rows.append((what, value, f"{'≤' if most else '≥'} {bound}", value <= bound if most else value >= bound))

    ratio("walk / git, 3 changed", "changed", "walk", "git", 1.0, most=True)
    ratio("walk / git, nothing changed", "nothing", "walk", "git", 1.0, most=True)
    ratio("git / first snapshot", "first", "git", "walk", 2.5, most=False)
    ratio("git / restore of 3, walk", "restore_3", "git", "walk", 2.5, most=False)
    ratio("git / restore of 3, watcher", "restore_3", "git", "watch", 2.5, most=False)
    ratio("disk of 100 snapshots / git", "disk_100", "ours", "git", 0.4, most=True)
    return rows


def show(found: dict[str, Any]) -> None:
    print(f"\n{found['files']:,} files of 1-20 KB (compiled scanner: {'yes' if found['native'] else 'no'})")
    for key in ("first", "changed", "nothing", "restore_3", "restore_100", "store_mb", "disk_100", "reopened"):
        print(f"  {key:<12}" + "   ".join(f"{name} {value:,.2f}" for name, value in found[key].items()))
    for what, value, bound, met in goals(found):
        print(f"  {'ok  ' if met else 'MISS'} {what:<32} {value:8.2f}   {bound}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--files", default="1000,10000,50000")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--no-git", action="store_true")
    chosen = parser.parse_args(arguments)
    results = []
    for files in (int(one) for one in chosen.files.split(",")):
        results.append(measure(files, chosen.rounds, not chosen.no_git and shutil.which("git") is not None))
        show(results[-1])
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
