"""`relight export REF FILE` and `relight import FILE`, as people type them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.shell import Shell
from tests.unit.bundles.bundles import Machine


@pytest.fixture
def here(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path / "here")
    machine.session()
    (tmp_path / "key").write_bytes(b"0123456789abcdef0123456789abcdef")
    return machine


@pytest.fixture
def from_shell(here: Machine, tmp_path: Path) -> Shell:
    return Shell(here.path / "relight.db", tmp_path)


@pytest.fixture
def to_shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "there" / "relight.db", tmp_path)


def test_a_session_moves_with_two_commands(from_shell: Shell, to_shell: Shell, here: Machine, tmp_path: Path) -> None:
    ran = from_shell.run("export", "fix", "fix.relight")
    assert ran.returncode == 0, ran.stderr
    target, session, steps, size, _ = ran.stdout.rstrip("\n").split("\t")
    assert (target, session, int(size)) == (
        "fix.relight",
        here.rl.sessions.get("fix").id,
        (tmp_path / "fix.relight").stat().st_size,
    )
    ran = to_shell.run("import", "fix.relight", "--workspace", "elsewhere")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.rstrip("\n").split("\t") == [session, "fix", steps, "untrusted"]
    assert "but not started" in ran.stderr
    for words in (
        ("show", "fix"),
        ("verify", "fix"),
        ("diff", "fix@label-0", "fix@label-1"),
        ("fork", "fix@label-0", "--name", "branch"),
        ("rm", "branch", "--yes"),
    ):
        ran = to_shell.run(*words)
        assert ran.returncode == 0, (words, ran.stderr)
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / "elsewhere").mkdir()
    assert to_shell.run("restore", "fix@label-0").returncode == 0
    assert (tmp_path / "elsewhere" / "file").read_text() == "one"


def test_the_document_says_what_came(from_shell: Shell, to_shell: Shell, here: Machine, tmp_path: Path) -> None:
    (tmp_path / "rollout.jsonl").write_text("{}\n")
    words = ["export", "fix", "b", "--sign-key", "key", "--attach", "rollout=rollout.jsonl"]
    assert from_shell.run(*words).returncode == 0
    ran = to_shell.run("import", "b", "--key", "key", "--workspace", "w", "--name", "moved", "--json")
    document = json.loads(ran.stdout)
    assert document["session"] == here.rl.sessions.get("fix").id
    assert document["name"] == "moved"
    assert document["trusted"] is True
    assert document["already_here"] is False
    assert document["attachments"] == ["rollout"]
    assert document["workspace"] == {"main": str(tmp_path / "w")}
    again = json.loads(to_shell.run("import", "b", "--json", "--workspace", "w").stdout)
    assert again["already_here"] is True


def test_exit_codes_say_who_can_help(from_shell: Shell, to_shell: Shell, tmp_path: Path) -> None:
    assert from_shell.run("export", "fix", "b").returncode == 0
    assert from_shell.run("export", "fix", "b").returncode == 4
    assert from_shell.run("export", "nobody", "c").returncode == 3
    assert from_shell.run("export", "fix@2", "c").returncode == 2
    assert from_shell.run("export", "fix", str(tmp_path)).returncode == 2
    assert from_shell.run("export", "fix", "c", "--attach", "nothing").returncode == 2
    assert from_shell.run("export", "fix", "c", "--attach", "a=missing").returncode == 3
    assert from_shell.run("export", "fix", "c", "--sign-key", "missing").returncode == 3
    assert from_shell.run("export", "fix", "c", "--json", "--sign-key", "key").returncode == 2
    assert not (tmp_path / "c").exists()
    assert to_shell.run("import", "missing").returncode == 3
    assert to_shell.run("import", "b").returncode == 2  # it does not say where its files go
    assert to_shell.run("import", "b", "--workspace", "w", "--key", "key").returncode == 4  # it is not signed
    assert to_shell.run("import", "b", "--workspace", "w", "--name", "../up").returncode == 2
    (tmp_path / "b").write_bytes((tmp_path / "b").read_bytes()[:-1])
    ran = to_shell.run("import", "b", "--workspace", "w")
    assert ran.returncode == 4
    assert "RL-4201" in ran.stderr
    assert "nothing was imported" in ran.stderr
