"""Following a rollout of Codex, with what it shares with the thread it was forked from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from relight.agents.codex import directories, rollout
from relight.agents.native import jsonl
from relight.agents.native.follower import FileFollower
from relight.agents.native.names import is_id
from relight.ports.agent import Line, Transcript


def follow(path: Path) -> FileFollower:
    """An incremental reader of this rollout."""
    home = directories.home_above(path)

    def parent(native_id: str) -> Sequence[Line] | None:
        above = directories.locate(native_id, home)
        return jsonl.read(above).lines if above is not None else None

    growing = rollout.IncrementalRollout(parent)

    def assembled(own: Sequence[Line], offset: int, tail: bytes) -> Transcript:
        entries = growing.entries(own)
        version, named = growing.meta.get("cli_version"), directories.id_of(path) or growing.meta.get("id")
        return Transcript(
            native_id=named if isinstance(named, str) and is_id(named) else "",
            path=path,
            entries=entries,
            offset=offset,
            torn=tail,
            model=growing.model,
            version=version if isinstance(version, str) else None,
        )

    return FileFollower(path, assembled)
