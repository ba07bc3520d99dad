"""`relight run --workspace` and `relight resume --restore`: the program's files are captured, and can be put back."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.shell import Shell, eventually, logical_dump

PYTHON = sys.executable
WRITER = """
import os, pathlib, signal, sys
import relight

here = pathlib.Path(os.environ.get("PLACE", "."))
with relight.open() as rl, rl.session("any-name") as s:
    if s.is_new:
        s.append({"role": "user", "content": "write"})
        (here / "one.txt").write_text("one")
        s.append({"role": "assistant", "content": "one is written"})
        (here / "two.txt").write_text("two")
        s.checkpoint("both")
        os.kill(os.getpid(), int(sys.argv[1]))
    print(sorted(one.name for one in here.iterdir() if one.suffix == ".txt"))
    s.complete()
"""


@pytest.fixture
def stopped(shell: Shell) -> Shell:
    """A session `work` that was captured in a directory of its own, and stopped."""
    (shell.directory / "writer.py").write_text(WRITER)
    (shell.directory / "place").mkdir()
    done = shell.run(
        "run", "--name", "work", "--workspace", "place", "--", PYTHON, "writer.py", str(int(signal.SIGINT)),
        PLACE="place",
    )  # fmt: skip
    assert done.returncode != 0
    assert shell.json("show", "work")["workspace"] == {"main": str(shell.directory / "place")}
    return shell


def snapshots(shell: Shell, ref: str) -> list[Any]:
    return [one["snapshot"] for one in shell.json("checkpoints", ref) if one["snapshot"]]


def test_a_program_that_names_no_workspace_gets_the_one_of_run(stopped: Shell) -> None:
    assert len(snapshots(stopped, "work")) == 3
    assert "2 changed, +2 -0 since the start" in stopped.run("show", "work").stdout
    done = stopped.run("resume", "work", "--yes", PLACE="place")
    assert (done.returncode, done.stdout.strip()) == (0, "['one.txt', 'two.txt']"), done.stderr
    assert "nothing to restore" in done.stderr


@pytest.mark.crash
def test_files_are_captured_over_deaths(shell: Shell) -> None:
    (shell.directory / "writer.py").write_text(WRITER)
    done = shell.run("run", "--workspace", ".", "--", PYTHON, "writer.py", str(int(signal.SIGKILL)))
    assert (done.returncode, done.stdout.strip()) == (0, "['one.txt', 'two.txt']"), done.stderr
    assert {one["path"] for one in shell.json("diff", "python-shop@1", "python-shop")} == {"one.txt", "two.txt"}


def test_several_workspaces_have_names(shell: Shell, tmp_path: Path) -> None:
    program = (
        "import relight, pathlib\n"
        "with relight.open() as rl, rl.session('x') as s:\n"
        "    s.append({'role': 'user', 'content': 'a'})\n"
        "    pathlib.Path('code/a.py').write_text('a')\n"
        "    pathlib.Path('docs/b.md').write_text('b')\n"
        "    s.append({'role': 'assistant', 'content': 'b'})\n"
        "    s.complete()\n"
    )
    for name in ("code", "docs"):
        (shell.directory / name).mkdir()
    words = ("--name", "two", "--workspace", "code=code", "--workspace", "text=docs")
    assert shell.run("run", *words, "--", PYTHON, "-c", program).returncode == 0
    found = {(one["root"], one["path"]) for one in shell.json("diff", "two@1", "two")}
    assert found == {("code", "a.py"), ("text", "b.md")}
    own = tmp_path / "own"
    made = shell.json("fork", "two", "--workspace", str(own))
    assert made["workspace"] == {"code": str(own / "code"), "text": str(own / "text")}
    assert (own / "text" / "b.md").read_text() == "b"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--workspace", "a", "--workspace", "b"], 2),
        (["--workspace", "no-such-directory"], 4),
        (["--workspace", "/"], 4),
        (["--workspace", "~"], 4),
    ],
    ids=["twice", "missing", "root", "home"],
)
def test_an_unfit_workspace_is_refused_before_there_is_a_session(shell: Shell, words: list[str], code: int) -> None:
    words = [word.replace("~", str(Path.home())) for word in words]
    done = shell.run("run", *words, "--", PYTHON, "-c", "open('started', 'w')")
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("error: ")
    assert not (shell.directory / "started").exists()
    assert shell.json("list", "--all") == []


# -- a workspace that is gone ---------------------------------------------------------------------------------


def test_a_missing_workspace_is_refused_before_anything_is_touched(stopped: Shell) -> None:
    location = stopped.directory / "place"
    shutil.rmtree(location)
    before = logical_dump(stopped.store)
    done = stopped.run("resume", "work", "--yes", PLACE="place")
    assert done.returncode == 4
    assert f"workspacemissing:{location}" in "".join(done.stderr.split())  # wrapped at 80
    assert "relight resume work --restore" in " ".join(done.stderr.split())
    assert stopped.run("resume", "work", "say more", "--yes").returncode == 4
    plan = stopped.run("can-resume", "work")
    assert (plan.returncode, "workspace missing" in plan.stdout, "--restore" in plan.stdout) == (4, True, True)
    assert stopped.json("can-resume", "work")["reasons"][0]["code"] == "workspace_missing"
    assert logical_dump(stopped.store) == before
    assert not location.exists()


def test_a_missing_workspace_is_made_anew_before_the_program_starts(stopped: Shell) -> None:
    location = stopped.directory / "place"
    shutil.rmtree(location)
    done = stopped.run("resume", "work", "--restore", "--yes", PLACE="place")
    assert (done.returncode, done.stdout.strip()) == (0, "['one.txt', 'two.txt']"), done.stderr
    assert "workspace restored" in done.stderr
    assert stopped.json("show", "work")["status"] == "completed"
    assert stopped.run("verify").returncode == 0


def test_a_program_may_run_in_the_directory_that_is_made_anew(shell: Shell, tmp_path: Path) -> None:
    (shell.directory / "writer.py").write_text(WRITER)
    location = shell.directory
    done = shell.run("run", "--name", "here", "--workspace", ".", "--", PYTHON, "writer.py", str(int(signal.SIGINT)))
    assert done.returncode != 0
    shutil.rmtree(location)
    shell.directory = tmp_path
    assert shell.run("resume", "here", "--yes").returncode == 4
    done = shell.run("resume", "here", "--restore", "--yes")
    assert (done.returncode, done.stdout.strip()) == (0, "['one.txt', 'two.txt']"), done.stderr


def test_restoring_leaves_what_is_there_as_it_is(stopped: Shell) -> None:
    location = stopped.directory / "place"
    (location / "one.txt").write_text("mine")
    (location / "three.txt").write_text("mine too")
    (location / "two.txt").unlink()
    done = stopped.run("resume", "work", "--restore", "--yes", PLACE="place")
    assert (done.returncode, done.stdout.strip()) == (0, "['one.txt', 'three.txt', 'two.txt']"), done.stderr
    assert (location / "one.txt").read_text() == "mine"


@pytest.mark.parametrize("what", ["a directory", "a link"])
def test_another_directory_in_its_place_is_noticed(stopped: Shell, what: str) -> None:
    location = stopped.directory / "place"
    location.rename(stopped.directory / "moved")
    other = stopped.directory / "other" if what == "a link" else location
    other.mkdir()
    if what == "a link":
        location.symlink_to(other)
    before = logical_dump(stopped.store)
    done = stopped.run("resume", "work", "--yes", PLACE="place")
    assert (done.returncode, "(RL-4101)" in done.stderr) == (4, True), done.stderr
    assert "relight resume work --restore" in " ".join(done.stderr.split())
    assert logical_dump(stopped.store) == before
    done = stopped.run("resume", "work", "--restore", "--yes", PLACE="place")
    assert (done.returncode, done.stdout.strip()) == (0, "['one.txt', 'two.txt']"), done.stderr
    assert stopped.run("resume", "work", "more", "--yes", PLACE="place").returncode == 0, "it is accepted for good"


def test_a_directory_that_was_moved_is_known_behind_a_link_in_its_place(stopped: Shell) -> None:
    location = stopped.directory / "place"
    location.rename(stopped.directory / "moved")
    location.symlink_to("moved")
    done = stopped.run("resume", "work", "--yes", PLACE="place")
    assert done.returncode == 0, done.stderr


def test_a_missing_workspace_without_a_snapshot_cannot_be_made_anew(shell: Shell) -> None:
    location = shell.directory / "place"
    location.mkdir()
    program = "import relight, signal, os\nos.kill(os.getppid(), signal.SIGKILL)"  # before it opens its session
    shell.run("run", "--name", "bare", "--workspace", "place", "--", PYTHON, "-c", program)
    shutil.rmtree(location)
    done = shell.run("resume", "bare", "--restore", "--yes")
    assert (done.returncode, "no snapshot holds its files" in " ".join(done.stderr.split())) == (4, True), done.stderr
    assert not location.exists()


def test_a_fork_runs_in_its_own_directory(stopped: Shell, tmp_path: Path) -> None:
    shell, own = stopped, tmp_path / "own"
    made = shell.run("run", "--name", "in", "--workspace", ".", "--", PYTHON, "writer.py", str(int(signal.SIGINT)))
    assert made.returncode != 0
    assert shell.run("fork", "in@both", "--name", "out", "--workspace", str(own)).returncode == 0
    (shell.directory / "later.txt").write_text("not in the fork")
    done = shell.run("resume", "out", "--yes")
    assert (done.returncode, done.stdout.strip()) == (0, "['one.txt', 'two.txt']"), done.stderr
    assert eventually(lambda: shell.json("show", "out")["status"] == "completed")


PLAIN = "import pathlib, sys\npathlib.Path('place/a.txt').write_text('after')\nsys.exit(int(sys.argv[1]))\n"


@pytest.fixture
def location(shell: Shell) -> Path:
    """A directory with one file, and a script that knows nothing of relight."""
    (shell.directory / "plain.py").write_text(PLAIN)
    made = shell.directory / "place"
    made.mkdir()
    (made / "a.txt").write_text("before")
    return made


@pytest.mark.parametrize("code", [0, 3])
def test_the_files_of_a_plain_program_are_captured_before_it_starts_and_when_it_ended(
    shell: Shell, location: Path, code: int
) -> None:
    done = shell.run("run", "--name", "job", "--workspace", "place", "--", PYTHON, "plain.py", str(code))
    assert done.returncode == code
    assert "1 changed" in done.stderr
    rows = shell.json("checkpoints", "job")
    assert [(one["kind"], bool(one["snapshot"])) for one in rows] == [
        ("attempt", False),
        ("status", True),
        ("status", True),
    ]
    assert shell.run("rewind", "job@2", "--files").returncode == 0
    assert (location / "a.txt").read_text() == "before"
    assert shell.run("undo", "job").returncode == 0
    assert (location / "a.txt").read_text() == "after"


@pytest.mark.crash
def test_what_a_killed_plain_program_left_is_captured_before_its_next_start(shell: Shell, location: Path) -> None:
    again = "exec >/dev/null 2>&1; test -e once && exit 0; touch once; "
    script = again + "echo left > place/a.txt; kill -9 $PPID; sleep 60"
    shell.run("run", "--name", "job", "--workspace", "place", "--", "sh", "-c", script)
    assert (location / "a.txt").read_text() == "left\n"
    assert shell.run("resume", "job", "--yes").returncode == 0
    rows = shell.json("checkpoints", "job")
    assert [bool(one["snapshot"]) for one in rows] == [False, True, False, True, False]
    assert [one["path"] for one in shell.json("diff", "job@2", "job@4")] == ["a.txt"]


def test_a_workspace_that_is_gone_when_a_plain_program_ends_costs_a_note_and_not_its_verdict(
    shell: Shell, location: Path
) -> None:
    done = shell.run("run", "--name", "job", "--workspace", "place", "--", "rm", "-r", "place")
    assert done.returncode == 0
    assert "could not be captured" in done.stderr
    assert shell.json("show", "job")["status"] == "completed"


def test_a_command_that_only_looks_like_a_library_program_is_captured_at_its_end(shell: Shell, location: Path) -> None:
    (shell.directory / "plain.py").write_text("import relight\n" + PLAIN)
    shell.run("run", "--name", "job", "--workspace", "place", "--", PYTHON, "plain.py", "0")
    assert [bool(one["snapshot"]) for one in shell.json("checkpoints", "job")][-1]


def test_a_new_session_in_a_replaced_directory_is_told_which_session_recorded_it(shell: Shell) -> None:
    place = shell.directory / "place"
    place.mkdir()
    (place / "f").write_text("then")
    words = ["--workspace", "place", "--", "sh", "-c", "test -e again || { touch again; exit 1; }"]
    assert shell.run("run", "--name", "former", *words).returncode == 1
    place.rename(shell.directory / "moved")
    place.mkdir()
    refused = shell.run("run", "--name", "latter", *words)
    assert refused.returncode == 4 and "not the directory that was recorded" in refused.stderr
    assert "latter" not in refused.stderr, "there is no such session"
    [hint] = [line.partition(": relight ")[2] for line in refused.stderr.splitlines() if " resume " in line]
    assert shell.run(*hint.split(), "--yes").returncode == 0, hint
    assert (place / "f").read_text() == "then"
