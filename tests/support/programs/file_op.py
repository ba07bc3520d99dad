"""A session with a workspace, and what can be done to its files: to be killed at any point of it.

The tree is one in which a restore has everything to do: write, replace, delete, a file for a directory and back, a
link, a mode. `mine` is the user's, and no snapshot of the session holds it.
"""

from __future__ import annotations

import os
from pathlib import Path

import relight
from relight.files import restore
from relight.operations import remove  # so that a fork of the fork server need not import them
from relight.sessions import session
from relight.values.policy import Retention
from relight.workspaces import home
from relight.workspaces.changes import native

LOADED = (restore, session, remove, home, native.load())


def grow(root: Path) -> None:
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
    (root / "a/b").chmod(0o710)


def prepare(rl: relight.Relight, root: Path) -> None:
    """Checkpoint `then` holds the one tree, checkpoint `now` the other."""
    with rl.session("agent", workspace=root) as s:
        grow(root)
        with s.batch("then"):
            s.append({"role": "assistant", "content": "then"})
        change(root)
        with s.batch("now"):
            s.append({"role": "assistant", "content": "now"})
    (root / "mine").write_bytes(b"no snapshot of the session holds this")


def append(rl: relight.Relight, root: Path) -> None:
    """Three steps, each after a change."""
    with rl.session("agent") as s:
        for number in range(3):
            (root / "a/edit").write_bytes(b"%d" % number * 2000)
            (root / f"new-{number}").write_bytes(os.urandom(300))
            s.append({"role": "assistant", "content": str(number)})


def main(store: str, tree: str, verb: str) -> None:
    """Do one thing and end."""
    root = Path(tree)
    with relight.open(store) as rl:
        if verb == "prepare":
            prepare(rl, root)
        elif verb == "append":
            append(rl, root)
        elif verb == "restore":
            rl.files.restore("agent@then")
        elif verb == "rewind":
            rl.history.rewind("agent@then", files=True)
        elif verb in ("undo", "redo"):
            (rl.history.redo if verb == "redo" else rl.history.undo)("agent")
        else:
            rl.admin.sweep(Retention(grace_seconds=0.0))
