"""What is captured, and what it may cost, can be set from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

import relight
from relight.errors import UsageError
from relight.workspaces.policy import TreePolicy, policy_from_environment

NAMES = ("RELIGHT_INCLUDE", "RELIGHT_FILE_CAP", "RELIGHT_QUOTA", "RELIGHT_FREE_FLOOR")


@pytest.mark.parametrize(
    ("said", "size"),
    [("1000", 1000), ("1k", 1024), ("1.5 MB", 1536 * 1024), ("2GiB", 2 << 30), (" 1 t ", 1 << 40), ("0", 0)],
)
def test_a_size_is_read_as_people_write_it(said: str, size: int) -> None:
    assert policy_from_environment({"RELIGHT_QUOTA": said}).quota_bytes == size


def test_what_is_not_said_stays() -> None:
    assert policy_from_environment({}) == policy_from_environment(dict.fromkeys(NAMES, "")) == TreePolicy()
    assert policy_from_environment({"RELIGHT_QUOTA": "none"}).quota_bytes is None
    assert policy_from_environment({"RELIGHT_FREE_FLOOR": "none"}).floor_bytes is None
    assert policy_from_environment({"RELIGHT_INCLUDE": ":.env::build/x"}).include == (".env", "build/x")


@pytest.mark.parametrize("name", NAMES[1:])
@pytest.mark.parametrize("wrong", ["much", "-1", "1e9", "1 XB", "9" * 40])
def test_a_size_that_cannot_be_read_is_named(name: str, wrong: str) -> None:
    with pytest.raises(UsageError, match=name):
        policy_from_environment({name: wrong})


def test_a_file_needs_a_cap() -> None:
    with pytest.raises(UsageError, match="RELIGHT_FILE_CAP"):
        policy_from_environment({"RELIGHT_FILE_CAP": "none"})


def left_out(path: Path) -> dict[str, str]:
    with relight.open(path / "p.db") as rl:
        with rl.session("a", workspace=path / "tree", resume=False) as s:
            s.append({"role": "user", "content": "hello"})
        state = rl.files.status("a", start=True)
        assert state is not None
        return {one.path: one.reason for one in state.left_out or ()}


def test_they_hold_for_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / ".env").write_text("KEY=1")
    (tmp_path / "tree" / "large").write_bytes(bytes(5000))
    assert left_out(tmp_path) == {".env": "secret"}
    monkeypatch.setenv("RELIGHT_INCLUDE", ".env")
    monkeypatch.setenv("RELIGHT_FILE_CAP", "4k")
    assert left_out(tmp_path) == {"large": "too large"}


def test_a_quota_that_is_set_refuses_the_capture_and_keeps_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "f").write_bytes(bytes(range(256)) * 40)
    monkeypatch.setenv("RELIGHT_QUOTA", "100")
    with relight.open(tmp_path / "p.db") as rl:
        with rl.session("a", workspace=tmp_path / "tree") as s:
            s.append({"role": "user", "content": "hello"})
        state = rl.files.status("a")
        assert state is not None and "the policy's limit is 100" in (state.trouble or "")
        assert len(rl.history.load("a").messages) == 1


def test_an_env_file_is_a_secret_whatever_stands_before_its_name(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    for name in (".env", "prod.env", ".env.local", ".env.example", "environment.py"):
        (tmp_path / "tree" / name).write_text("KEY=1")
    assert left_out(tmp_path) == {".env": "secret", "prod.env": "secret", ".env.local": "secret"}
