"""A real agent's session elsewhere: a blank home, another directory, a fork, an earlier checkpoint, another store."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_harness import KINDS, TASK, append, begin_alone, harness, lines
from tests.support.fake_model import texts

pytestmark = pytest.mark.agents
DONE = {"text": "all done"}
MORE = {"text": "more done"}


def slow(turn: dict[str, Any]) -> dict[str, Any]:
    """A model that thinks before it answers, as they do: there is time for a checkpoint between two turns."""
    return {**turn, "delay": 1.0}


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_blank_home_it_remembers_everything(kind: str, tmp_path: Path) -> None:
    with harness(kind, tmp_path, [append("one"), append("two"), DONE, append("three"), MORE]) as s:
        s.run()
        blank = tmp_path / "blank"
        blank.mkdir()
        s.do("resume", "job", "go on", "--yes", home=blank)
        s.remembers(TASK, "writes one", "writes two", "all done", "go on", "writes three")
        assert lines(s.work) == ["one", "two", "three"]
        assert s.info().status == "completed"


@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_goes_its_own_way_in_a_directory_of_its_own(kind: str, tmp_path: Path) -> None:
    with harness(kind, tmp_path, [append("one"), slow(append("two")), DONE, MORE]) as s:
        s.run()
        there = tmp_path / "there"
        s.do("fork", f"job@{s.after_turn(1)}", "--name", "try", "--workspace", str(there))
        assert lines(there) == ["one"]
        before = len(s.model.requests())
        s.do("resume", "try", "another way", "--yes")
        first = s.model.requests()[before]
        s.remembers(TASK, "writes one", "another way", request=first)
        assert "writes two" not in "\n".join(texts(first.items))
        assert (lines(there), lines(s.work)) == (["one", "two"], ["one", "two"])
        assert s.info("try").status == "completed"
        s.do("resume", "job", "go on", "--yes")
        s.remembers(TASK, "writes one", "writes two", "all done", "go on")
        assert "another way" not in "\n".join(texts(s.last)), "a fork writes into the session it comes from"


@pytest.mark.parametrize("kind", KINDS)
def test_a_rewind_takes_back_files_and_conversation_together(kind: str, tmp_path: Path) -> None:
    with harness(kind, tmp_path, [append("one"), slow(append("two")), DONE]) as s:
        s.run()
        assert lines(s.work) == ["one", "two"]
        s.do("rewind", f"job@{s.after_turn(1)}", "--both")
        assert lines(s.work) == ["one"]
        before = len(s.model.requests())
        s.do("resume", "job", "differently", "--yes")
        first = s.model.requests()[before]
        s.remembers(TASK, "writes one", "differently", request=first)
        assert "writes two" not in "\n".join(texts(first.items))
        s.remembers("writes two")
        assert lines(s.work) == ["one", "two"]
        s.do("verify", "job")


@pytest.mark.parametrize("kind", KINDS)
def test_exported_and_imported_it_goes_on_in_another_home_store_and_directory(kind: str, tmp_path: Path) -> None:
    script = [append("one"), append("two"), DONE, append("three"), MORE]
    with harness(kind, tmp_path / "here", script) as here, harness(kind, tmp_path / "there", script) as there:
        here.run()
        bundle, key = tmp_path / "job.relight", tmp_path / "key"
        key.write_bytes(b"0123456789abcdef0123456789abcdef\n")
        key.chmod(0o600)
        here.do("export", "job", str(bundle), "--sign-key", str(key))
        shutil.rmtree(here.base / "home")
        work = tmp_path / "elsewhere"
        there.do("import", str(bundle), "--key", str(key), "--workspace", str(work))
        there.do("resume", "job", "go on", "--yes", "--restore", cwd=there.work)
        there.remembers(TASK, "writes one", "writes two", "all done", "go on", "writes three")
        assert lines(work) == ["one", "two", "three"]
        assert lines(here.work) == ["one", "two"]
        there.do("verify", "job")


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_that_was_begun_without_relight_is_adopted_and_goes_on(kind: str, tmp_path: Path) -> None:
    with harness(kind, tmp_path, [append("one"), DONE, append("two"), MORE]) as s:
        begin_alone(s)
        assert lines(s.work) == ["one"]
        s.do("adopt", "--name", "job", "--", *s.agent()[:1], *_flags(kind))
        assert s.info().message_count > 0
        s.do("resume", "job", "go on", "--yes")
        s.remembers(TASK, "writes one", "all done", "go on", "writes two")
        assert lines(s.work) == ["one", "two"]
        assert s.info().status == "completed"


def _flags(kind: str) -> list[str]:
    if kind == "claude":
        return ["-p", "--dangerously-skip-permissions", "--output-format", "stream-json", "--verbose"]
    return ["exec", "--json", "--skip-git-repo-check"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_directory_that_was_moved_is_missing_until_it_is_named_anew(kind: str, tmp_path: Path) -> None:
    with harness(kind, tmp_path, [append("one"), DONE, append("two"), MORE]) as s:
        s.run()
        moved = tmp_path / "moved"
        s.work.rename(moved)
        refused = s.relight("resume", "job", "go on", "--yes", cwd=tmp_path)
        assert refused.returncode == 4, refused.stderr
        assert "workspace missing" in refused.stderr and str(s.work) in refused.stderr
        assert len(s.model.requests()) == 2
        s.do("fork", "job", "--name", "again", "--workspace", str(tmp_path / "new"), cwd=tmp_path)
        s.do("resume", "again", "go on", "--yes", cwd=tmp_path)
        s.remembers(TASK, "writes one", "all done", "go on", "writes two")
        assert lines(tmp_path / "new") == ["one", "two"]
        assert lines(moved) == ["one"]
