"""A workspace whose repository is gone, or on another branch, is named before a start, and started only if accepted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import relight
from relight.engine.library import Relight
from relight.errors import NotFound, NotResumable
from relight.journal.repositories import moved, standing
from relight.model.snapshot import GitHead


def repository(root: Path, branch: str = "main", commit: str = "1" * 40) -> None:
    """As git would leave it: HEAD and a commit. git is not run."""
    (root / ".git" / "refs" / "heads").mkdir(parents=True, exist_ok=True)
    (root / ".git" / "HEAD").write_text(f"ref: refs/heads/{branch}\n")
    (root / ".git" / "refs" / "heads" / branch).write_text(f"{commit}\n")


def reasons(rl: Relight, ref: str = "g") -> list[str]:
    return [one.text for one in rl.can_resume(ref).reasons if one.code == "repository_moved"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "w"
    made.mkdir()
    (made / "file").write_text("x")
    repository(made)
    return made


@pytest.fixture
def rl(tmp_path: Path, root: Path) -> Iterator[Relight]:
    """A store with a session that relight can start again, its files captured, its program ended."""
    with relight.open(tmp_path / "a.db") as opened:
        command, places = ["sh", "-c", "exit 0"], {"main": str(root)}
        opened.launch(command, agent="sh", name="g", directory=str(root), workspace=places)
        with opened.session("g") as s:
            s.append({"role": "user", "content": "its program works, and captures"})
        yield opened


def test_a_repository_that_is_gone_is_named_and_refused(rl: Relight, root: Path) -> None:
    assert reasons(rl) == [] and rl.can_resume("g").ok
    shutil.rmtree(root / ".git")
    before = rl.get("g").seq
    assert reasons(rl) == [f"{root}: its repository (.git) is gone; it was on branch main"]
    assert not rl.can_resume("g").ok
    with pytest.raises(NotResumable, match=r"\.git\) is gone"):
        rl.supervise("g")
    with pytest.raises(NotResumable, match=r"\.git\) is gone"):
        rl.check_start("g")
    assert rl.get("g").seq == before


def test_another_branch_is_named_and_goes_on_once_it_is_accepted(rl: Relight, root: Path) -> None:
    repository(root, commit="2" * 40)
    assert reasons(rl) == [], "another commit on the same branch is work going on"
    repository(root, "other")
    assert reasons(rl) == [f"{root}: its repository is on branch other, and was on branch main"]
    with pytest.raises(NotResumable):
        rl.supervise("g")
    rl.accept_repository("g")
    assert reasons(rl) == [] and rl.can_resume("g").ok
    with pytest.raises(NotFound):
        rl.accept_repository("g")
    repository(root, "third")
    assert reasons(rl) == [f"{root}: its repository is on branch third, and was on branch main"]
    repository(root, "other")
    rl.supervise("g").run()
    assert reasons(rl) == []


def test_a_fork_in_a_directory_of_its_own_has_no_repository_to_miss(rl: Relight, tmp_path: Path) -> None:
    rl.fork("g", name="f", workspace=str(tmp_path / "f"))
    assert not (tmp_path / "f" / ".git").exists()
    assert reasons(rl, "f") == []


def test_what_counts_is_the_branch() -> None:
    main, other = GitHead(path=b"", ref="refs/heads/main", commit="1"), GitHead(path=b"", ref="refs/heads/x")
    detached = GitHead(path=b"", commit="1")
    assert moved(standing(main), is_there=True, now=main) is None
    assert moved(standing(None), is_there=False, now=None) is None
    assert moved(standing(None), is_there=True, now=main) is None, "one that was made since is no loss"
    assert moved(standing(main), is_there=True, now=other) == "its repository is on branch x, and was on branch main"
    assert moved(standing(main), is_there=True, now=detached) == (
        "its repository is on no branch, and was on branch main"
    )
    assert "cannot be read" in str(moved(standing(main), is_there=True, now=None))
    assert moved(standing(detached), is_there=True, now=GitHead(path=b"", commit="2")) is None
