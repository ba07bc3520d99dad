"""Two machines and a file between them: what the tests of bundles share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

import relight
from relight.history.loading import resolve
from relight.journal.bundle import Frame, LabelRow, Manifest, Piece, StepRow, Writer, frames, part_row, read_part
from relight.ports.store import Store

KEY = b"0123456789abcdef0123456789abcdef"
TOKEN = "ghp_" + "a1B2" * 9


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def reply(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


class Machine:
    """A directory with a store in it."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True)
        self.path, self.work = path, path / "work"
        self.rl = relight.open(path / "relight.db")

    @property
    def store(self) -> Store:
        return self.rl.store

    def session(self, name: str = "fix", *texts: str, **options: Any) -> str:
        """A session with files and labels; its id."""
        self.work.mkdir(exist_ok=True)
        with self.rl.session(name, workspace=self.work, task="Fix the login", **options) as s:
            s.append(user("Fix it"))
            for number, text in enumerate(texts or ("one", "two")):
                (self.work / "file").write_text(text)
                (self.work / f"dir-{number}").mkdir(exist_ok=True)
                (self.work / f"dir-{number}" / "big").write_bytes(bytes(range(256)) * 40 + text.encode())
                s.append(reply(text))
                s.checkpoint(f"label-{number}")
        return self.rl.sessions.get(name).id

    def is_untouched(self) -> bool:
        """No session, no content, no row of content."""
        blobs = self.path / "relight.db.blobs"
        return not self.store.count_sessions() and not self.store.list_pools() and not list(blobs.rglob("*.seg"))


def dump(store: Store, ref: str) -> dict[str, Any]:
    """All that is stored of a session, but for where it lies."""
    found = resolve(store, ref)
    lease_free = msgspec.structs.replace(found.whole_head(), lease=None)
    return {
        "head": lease_free,
        "steps": list(store.steps(found.identity.id)),
        "rows": store.checkpoints(found.identity.id),
        "who": (found.identity.task, found.identity.agent, found.identity.parent, found.identity.created_us),
    }


def read(path: Path) -> list[Frame]:
    with path.open("rb") as file:
        return list(frames(file, path.stat().st_size))


def write(path: Path, parts: Iterator[Frame] | list[Frame], key: bytes | None = None) -> Path:
    """A bundle of these frames, with sums that fit: what a forger would make."""
    with path.open("wb") as file:
        writer = Writer(file)
        for one in parts:
            if isinstance(one, Manifest):
                writer.manifest(one)
            elif isinstance(one, StepRow):
                writer.step(one)
            elif isinstance(one, LabelRow):
                writer.label(one)
            elif isinstance(one, Piece):
                writer.piece(one)
            elif isinstance(one, tuple):
                writer.object(*one)
        writer.end(key)
    return path


def with_manifest(found: list[Frame], /, **changes: Any) -> list[Frame]:
    return [msgspec.structs.replace(one, **changes) if isinstance(one, Manifest) else one for one in found]


def with_part(
    parts: list[Frame], identity: dict[str, Any] | None = None, head: dict[str, Any] | None = None
) -> list[Frame]:
    """The last session of the manifest is another one."""
    manifest = next(one for one in parts if isinstance(one, Manifest))
    who, where = read_part(manifest.parts[-1])
    who, where = msgspec.structs.replace(who, **identity or {}), msgspec.structs.replace(where, **head or {})
    return with_manifest(parts, parts=[*manifest.parts[:-1], part_row(who, where)])
