"""The names of the surface, each in both forms: what a program may rely on is there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import relight
from relight import aio

SESSION = (
    "run turns prompt append batch ask sleep once settle spawn children join stream state messages calls usage "
    "workspace complete fail halt rewind"
)
NOUNS = {
    "sessions": "get find list search tree archive remove",
    "history": "load events checkpoints label fork rewind undo redo compare verify export import_",
    "files": "status list read diff restore",
    "runs": "start plan resume stop send approve deny settle adopt",
    "queues": "submit enqueue list set workers",
    "admin": "sweep release migrate health backup drill",
}


@pytest.mark.parametrize("form", [relight.Session, aio.AsyncSession])
def test_a_session_has_every_name_of_the_surface(form: type[Any]) -> None:
    assert [name for name in SESSION.split() if not hasattr(form, name)] == []


@pytest.mark.parametrize("noun", NOUNS)
def test_a_noun_has_every_verb_of_the_surface(noun: str) -> None:
    with relight.open("memory:") as rl:
        for handle in (rl, aio.AsyncRelight(rl)):
            assert [verb for verb in NOUNS[noun].split() if not hasattr(getattr(handle, noun), verb)] == []


def test_workspace_names_the_directories_of_a_session_and_a_forks_own(tmp_path: Path) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    with relight.open(tmp_path / "r.db") as rl:
        with rl.session("plain") as s:
            assert s.workspace == {}
        with rl.session("a", workspace=work) as s:
            s.checkpoint()
            assert s.workspace == {"main": str(work)} == rl.sessions.get("a").workspace
            s.workspace["main"] = "elsewhere"
            assert s.workspace == {"main": str(work)}, "a copy"
        rl.history.fork("a", name="b", workspace=str(other))
        with rl.session("b") as fork:
            assert fork.workspace == {"main": str(other)}


def test_workspace_is_read_without_await(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()

    async def main() -> dict[str, str]:
        async with aio.session("a", store=tmp_path / "r.db", workspace=work) as s:
            return s.workspace

    assert asyncio.run(main()) == {"main": str(work)}
