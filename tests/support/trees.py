"""Random trees and edits: names of any bytes, modes, links, empty directories, fifos, nested repositories."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

from relight.testing.workspace_kit import FileSegments
from relight.workspaces.policy import TreePolicy
from relight.workspaces.workspace import TreeWorkspace

ODD = [
    b"\xff\xfe",
    b"a\nb",
    b" lead",
    b"trail ",
    b"\xc3\xa9",
    b"e\xcc\x81",
    b"-rf",
    b"*",
    b"a\\b",
    b"#x",
    b"!y",
    b"con",
]


def open_tree(root: Path, home: Path, **policy: object) -> TreeWorkspace:
    adopt = bool(policy.pop("adopt", False))
    chosen = TreePolicy(**policy)  # type: ignore[arg-type]
    return TreeWorkspace(
        root, blobs=home / "blobs", rows=FileSegments(home / "rows"), policy=chosen, key="pool", adopt=adopt
    )


class Gardener:
    """Grows and edits a tree; the same seed does the same."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.chance = os.fsencode(root), random.Random(seed)

    def grow(self, count: int) -> None:
        for _ in range(count):
            self.edit()

    def edit(self) -> None:
        """One random change; a path that is not there to be changed is created."""
        chance = self.chance
        kind = chance.choices(
            ["write", "append", "mkdir", "link", "delete", "rmtree", "rename", "chmod", "fifo", "swap", "touch"],
            [30, 10, 10, 6, 8, 3, 8, 6, 2, 2, 4],
        )[0]
        path = self._path() if kind in ("write", "mkdir", "link", "fifo") else self._existing()
        try:
            getattr(self, "_" + kind)(path)
        except (FileExistsError, FileNotFoundError, NotADirectoryError, IsADirectoryError, OSError):
            return

    def _name(self) -> bytes:
        if self.chance.random() < 0.2:
            return self.chance.choice(ODD)
        return b"n%d" % self.chance.randrange(12)

    def _path(self) -> bytes:
        path = self.root
        for _ in range(self.chance.randrange(3)):
            path = os.path.join(path, self._name())
        return os.path.join(path, self._name())

    def _existing(self) -> bytes:
        """One of the paths that are there; else one that is not."""
        found = [os.path.join(at, name) for at, below, files in os.walk(self.root) for name in (*below, *files)]
        return self.chance.choice(sorted(found)) if found else self._path()

    def _write(self, path: bytes) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.lexists(path) and (os.path.islink(path) or not os.path.isfile(path)):
            os.unlink(path)  # opening a fifo would wait for ever
        with open(path, "wb") as file:
            file.write(self.chance.randbytes(self.chance.choice([0, 1, 10, 3000])))

    def _append(self, path: bytes) -> None:
        if os.path.isfile(path) and not os.path.islink(path):
            with open(path, "ab") as file:
                file.write(b"more")

    def _mkdir(self, path: bytes) -> None:
        os.makedirs(path)

    def _link(self, path: bytes) -> None:
        os.symlink(self.chance.choice([b"nowhere", b"..", b"/etc/passwd", self._name()]), path)

    def _delete(self, path: bytes) -> None:
        os.unlink(path)

    def _rmtree(self, path: bytes) -> None:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)

    def _rename(self, path: bytes) -> None:
        os.rename(path, self._path())

    def _chmod(self, path: bytes) -> None:
        if not os.path.islink(path):
            os.chmod(path, self.chance.choice([0o600, 0o644, 0o755, 0o700, 0o711, 0o2755]))

    def _fifo(self, path: bytes) -> None:
        os.mkfifo(path)

    def _swap(self, path: bytes) -> None:
        """A directory goes and another of the same name comes."""
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
            os.mkdir(path)
            with open(os.path.join(path, b"fresh"), "wb") as file:
                file.write(self.chance.randbytes(5))

    def _touch(self, path: bytes) -> None:
        os.utime(path, ns=(1, self.chance.randrange(1 << 60)), follow_symlinks=False)


def two_in_one(root: Path) -> None:
    """A directory with two names that become one where case is folded."""
    (root / "src").mkdir(parents=True)
    (root / "src/Makefile").write_bytes(b"one")
    (root / "src/makefile").write_bytes(b"other")
    (root / "other").write_bytes(b"of its own")
