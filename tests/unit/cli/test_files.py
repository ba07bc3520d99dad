"""Files on the command line: what is shown of them, what goes back, what is never touched, and how it is undone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.cli.maintenance.doctor.files import watching
from relight.history.events import Event
from relight.history.narration import Narrator
from tests.support.calls import call, send_mail
from tests.support.files_on_disk import files_below
from tests.support.shell import Shell, logical_dump

GREEN = 3
"""the seq of the checkpoint green"""
HEAD = 8
"""where the session stopped"""
FILE_DIFF = {"root", "path", "what", "kind", "size_before", "size_after", "lines_added", "lines_removed", "text"}
FILE_DIFF |= {"may_run_later"}
PLAN = {"target", "safety", "written", "deleted", "kept", "conflicts", "may_run_later", "left_out"}
HOSTILE = "a\x1b]0;owned\x07\x1b[2J\u202eb\nc"
ESCAPED = r"a\x1b]0;owned\x07\x1b[2J\u202eb\nc"


def tree(directory: Path) -> dict[str, bytes]:
    """Every file below, with its bytes."""
    return {str(one.relative_to(directory)): one.read_bytes() for one in sorted(directory.rglob("*")) if one.is_file()}


@pytest.fixture
def work(shell: Shell, rl: relight.Relight) -> Path:
    """A session `fix` whose agent changed one file and added two after the checkpoint green, and sent a mail."""
    location = shell.directory
    (location / "cart.py").write_text("one\ntwo\n")
    (location / ".env").write_text("KEY=1\n")
    with rl.session("fix", workspace=str(location)) as s:
        s.append({"role": "user", "content": "Fix the cart"})
        s.checkpoint("green")
        (location / "cart.py").write_text("one\nthree\nfour\n")
        (location / "lib").mkdir()
        (location / "lib" / "log.py").write_text("log\n")
        (location / ".envrc").write_text("export A=1\n")
        s.append(call("c1", "send_mail", '{"to": "bob"}'))
        s.run_tool(s.pending_calls()[0], [send_mail])
    return location


@pytest.fixture
def mine(work: Path) -> Path:
    """The user has changed a file and added one since."""
    (work / "cart.py").write_text("mine\n")
    (work / "notes.md").write_text("ask about taxes\n")
    return work


# -- looking --------------------------------------------------------------------------------------------------

READING = [
    ["show", "fix"],
    ["show", "fix", "--verbose"],
    ["show", "fix@green"],
    ["checkpoints", "fix"],
    ["tail", "fix"],
    ["can-resume", "fix"],
    ["can-resume", "fix@green"],
    ["diff", "fix@green"],
    ["diff", "fix@green", "fix"],
    ["diff", "fix@green", "--stat"],
    ["restore", "fix@green", "--dry-run"],
    ["restore", "fix@green", "--dry-run", "--force", "--exact"],
    ["undo", "fix", "--list"],
    ["sweep", "--dry-run", "--days", "0"],
    ["rm", "fix", "--dry-run"],
    ["doctor"],
    ["list"],
]


def test_looking_at_files_changes_neither_store_nor_files(shell: Shell, mine: Path) -> None:
    before, files = logical_dump(shell.store), tree(mine)
    content = {one.name: one.stat().st_size for one in Path(f"{shell.store}.blobs").rglob("*.seg")}
    for words in READING:
        assert shell.run(*words).returncode == 0, words
        assert shell.run(*words, "--json").returncode == 0 or words[0] == "tail", words
        assert shell.screen(*words).code == 0, words
    assert logical_dump(shell.store) == before
    assert tree(mine) == files
    assert {one.name: one.stat().st_size for one in Path(f"{shell.store}.blobs").rglob("*.seg")} == content


@pytest.mark.parametrize("width", [40, 80])
def test_no_line_about_files_is_wider_than_the_terminal(shell: Shell, mine: Path, width: int) -> None:
    (mine / ("long-" * 30)).write_text("word " * 100 + "\n")
    for words in READING:
        wide = [line for line in shell.screen(*words, width=width).lines if len(line) > width]
        assert wide == [], words


def test_show_says_what_changed_since_the_start_and_what_is_left_out(shell: Shell, work: Path) -> None:
    text = shell.screen("show", "fix").text
    assert "3 changed, +4 -1 since the start; 1 left out" in text
    assert "\n  .env  (secret)" in shell.run("show", "fix", "--verbose").stdout
    files = shell.json("show", "fix", "--verbose")["files"]
    assert (files["since"], files["changed"], files["lines_added"], files["lines_removed"]) == (2, 3, 4, 1)
    assert files["left_out"] == [{"root": "main", "path": ".env", "reason": "secret", "size_bytes": 0}]


def test_show_says_since_when_nothing_is_captured_and_why(shell: Shell, rl: relight.Relight, tmp_path: Path) -> None:
    location = tmp_path / "gone"
    location.mkdir()
    with rl.session("fix", workspace=str(location)) as s:
        s.append({"role": "user", "content": "hello"})
        location.rename(tmp_path / "elsewhere")
        s.append({"role": "assistant", "content": "hi"})
        (tmp_path / "elsewhere").rename(location)
        text = shell.run("show", "fix").stdout
        assert re.search(r"files +none changed; not captured at @3: .*workspace missing", text), text
        assert "not captured: " in shell.run("tail", "fix").stdout
        s.append({"role": "assistant", "content": "again"})
    with rl.session("bare", workspace=str(location), snapshot="manual") as s:
        s.append({"role": "user", "content": "hello"})
    assert re.search(r"files +nothing captured yet", shell.run("show", "bare").stdout)
    assert re.search(r"files +nothing captured\n", shell.run("can-resume", "bare").stdout)


def test_a_checkpoint_says_which_files_differ_from_the_disk(shell: Shell, mine: Path) -> None:
    text = shell.run("show", "fix@green").stdout
    assert "4 differ from disk now: 1 changed, 3 added later" in text
    assert "2 of them were changed after the last capture (by you?)" in text
    differ = shell.json("show", "fix@green")["can_resume"]["files"]["differ"]
    assert {(one["path"], one["what"], one["later"]) for one in differ} == {
        ("cart.py", "changed", True),
        ("lib/log.py", "added", False),
        (".envrc", "added", False),
        ("notes.md", "added", True),
    }


def test_a_plan_says_what_a_resume_meets(shell: Shell, work: Path) -> None:
    assert re.search(r"files +as of @\d; nothing to restore", shell.run("can-resume", "fix").stdout)
    (work / "cart.py").write_text("mine\n")
    assert "1 differs from disk: 1 changed; they stay as they are" in shell.run("resume", "fix", "--dry-run").stdout
    assert shell.json("can-resume", "fix")["files"]["workspace"] == {"main": str(work)}


def test_checkpoints_mark_their_own_captures(shell: Shell, work: Path) -> None:
    lines = shell.screen("checkpoints", "fix").lines
    assert "FILES" in lines[0]
    marked = [line.split()[0] for line in lines if "✓" in line]
    held = [one["seq"] for one in shell.json("checkpoints", "fix") if one["snapshot"]]
    assert marked == [f"@{seq}" for seq in held]
    assert held[0] == 2
    assert len(held) >= 2


def test_a_diff_goes_from_one_checkpoint_to_another_or_to_the_disk(shell: Shell, mine: Path) -> None:
    between = {one["path"]: one for one in shell.json("diff", "fix@green", "fix")}
    assert all(set(one) == FILE_DIFF for one in between.values())
    assert (between["cart.py"]["what"], between["cart.py"]["lines_added"], between["cart.py"]["lines_removed"]) == (
        "changed",
        2,
        1,
    )
    assert between[".envrc"]["may_run_later"] is True
    assert between[".env"]["what"] == "left out"
    now = {one["path"] for one in shell.json("diff", "fix@green") if one["kind"] != "dir"}
    assert now == {"cart.py", "lib/log.py", ".envrc", "notes.md", ".env"}
    assert shell.json("diff", "fix@1", "fix") == list(between.values())
    with relight.open(shell.store) as rl, rl.session("bare") as s:
        s.append({"role": "user", "content": "no files"})
    done = shell.run("diff", "bare")
    assert (done.returncode, "no step of it has captured files" in done.stderr) == (3, True)


def test_a_diff_in_a_pipe_is_a_patch(shell: Shell, work: Path, tmp_path: Path) -> None:
    (work / "cart.py").write_text("one\n\tindented\n" + "long " * 100 + "\nno newline at the end")
    patch = shell.run("diff", "fix").stdout
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "cart.py").write_text("one\nthree\nfour\n")
    subprocess.run(["git", "apply", "-"], cwd=copy, input=patch, text=True, check=True)
    assert (copy / "cart.py").read_bytes() == (work / "cart.py").read_bytes()


def test_a_diff_between_checkpoints_needs_no_directory(shell: Shell, work: Path) -> None:
    work.rename(work.with_name("moved"))
    shell.directory = work.with_name("moved")
    assert {one["path"] for one in shell.json("diff", "fix@green", "fix")} >= {"cart.py", "lib/log.py"}
    done = shell.run("diff", "fix@green")
    assert (done.returncode, "(RL-4101)" in done.stderr) == (4, True)
    assert "3 changed" in shell.run("show", "fix").stdout
    assert f"workspace missing: {work}" in shell.run("show", "fix").stdout


# -- hostile names --------------------------------------------------------------------------------------------


def test_a_name_of_a_file_cannot_write_on_the_terminal(shell: Shell, work: Path) -> None:
    (work / HOSTILE).write_text("evil\n+++ b/other\n")
    os.close(os.open(os.fsencode(work) + b"/\xff\xfe", os.O_CREAT | os.O_WRONLY))
    for words in (
        ["diff", "fix@green"],
        ["diff", "fix@green", "--stat"],
        ["restore", "fix@green", "--dry-run"],
        ["show", "fix@green"],
        ["rewind", "fix@green", "--files"],
    ):
        screen = shell.screen(*words, NO_COLOR="1")
        assert screen.code == 0, words
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", screen.text), words
        assert "\x1b" not in shell.run(*words).stdout
    assert ESCAPED in shell.screen("diff", "fix@green", "--stat", width=200).text
    assert r"\udcff\udcfe" in shell.run("diff", "fix@green", "--stat").stdout
    paths = [one["path"] for one in shell.json("diff", "fix@green")]
    assert HOSTILE in paths
    assert os.fsencode(next(path for path in paths if not path.isascii() and path != HOSTILE)) == b"\xff\xfe"


# -- restore and undo -----------------------------------------------------------------------------------------


def test_a_dry_run_is_exactly_what_a_restore_does(shell: Shell, work: Path) -> None:
    planned = shell.json("restore", "fix@green", "--dry-run")
    assert (planned["dry_run"], planned["step"]) == (True, None)
    assert set(planned["plans"]["main"]) == PLAN
    assert set(planned["plans"]["main"]["written"]) == {"cart.py"}
    assert {"lib/log.py", ".envrc"} <= set(planned["plans"]["main"]["deleted"])
    before = tree(work)
    done = shell.json("restore", "fix@green")
    assert {key: done["plans"]["main"][key] for key in PLAN} == planned["plans"]["main"]
    assert done["step"].endswith(f"@{HEAD + 2}")
    assert tree(work) == {"cart.py": b"one\ntwo\n", ".env": b"KEY=1\n"}
    undone = shell.json("undo", "fix")
    assert set(undone) == {"session", "step", "head", "plans"}
    assert tree(work) == before
    log = shell.json("undo", "fix", "--list")
    assert [(one["verb"], one["done"]) for one in log] == [("restore", True), ("undo", True)]
    assert shell.json("undo", "fix", "--redo")
    assert tree(work) == {"cart.py": b"one\ntwo\n", ".env": b"KEY=1\n"}


def test_named_paths_are_restored_and_nothing_else(shell: Shell, work: Path) -> None:
    before = tree(work)
    assert shell.run("restore", "fix@green", "cart.py").returncode == 0
    assert tree(work) == {**before, "cart.py": b"one\ntwo\n"}


def test_a_file_that_only_the_user_had_survives_every_restore(shell: Shell, work: Path) -> None:
    (work / "notes.md").write_text("mine\n")
    for words in (
        ["restore", "fix@green", "--force"],
        ["restore", "fix", "--force"],
        ["restore", "fix@green", "--force"],
        ["undo", "fix"],
        ["undo", "fix", "--redo"],
        ["rewind", "fix@green", "--both", "--force"],
    ):
        assert shell.run(*words).returncode == 0, words
        assert (work / "notes.md").read_text() == "mine\n", words


def test_what_the_user_changed_is_a_conflict_and_nothing_is_touched(shell: Shell, mine: Path) -> None:
    before, files = logical_dump(shell.store), tree(mine)
    for verb in (["restore", "fix@green"], ["rewind", "fix@green", "--both"], ["rewind", "fix@green", "--files"]):
        done = shell.run(*verb)
        assert (done.returncode, "(RL-4103)" in done.stderr) == (4, True), done.stderr
        assert "cart.py" in done.stderr
        assert "--theirs" in done.stderr
    assert tree(mine) == files
    assert _without_segments(logical_dump(shell.store)) == _without_segments(before)


def _without_segments(dump: str) -> str:
    """The safety snapshot that was taken and never named by a step may lie in a segment of its own."""
    return "\n".join(line for line in dump.splitlines() if "segments" not in line)


@pytest.mark.parametrize(
    ("choice", "cart"), [("--theirs", b"mine\n"), ("--ours", b"one\ntwo\n"), ("--force", b"one\ntwo\n")]
)
def test_a_conflict_is_decided_by_whoever_asks(shell: Shell, mine: Path, choice: str, cart: bytes) -> None:
    assert shell.run("rewind", "fix@green", "--files", choice).returncode == 0
    assert tree(mine) == {"cart.py": cart, "notes.md": b"ask about taxes\n", ".env": b"KEY=1\n"}


# -- rewind ---------------------------------------------------------------------------------------------------


def test_a_rewind_shows_what_goes_back_asks_and_can_be_undone(shell: Shell, work: Path) -> None:
    before = tree(work)
    screen = shell.screen("rewind", "fix@green", keys=b"b\n", when="what goes back?", NO_COLOR="1")
    assert screen.code == 0
    text = "\n".join(screen.lines)
    assert f'fix  @{HEAD} -> @{GREEN} "green"' in text
    assert f"5 steps leave the model's view (kept, still @{GREEN + 1} to @{HEAD})" in text
    assert re.search(r"M cart\.py +\+1 -2", text)
    assert re.search(r"D lib/log\.py +\+0 -1", text)
    assert "send_mail (once) at @6" in text
    assert re.search(r"✓ safety snapshot   ✓ 3 files restored in \d+ ms   ✓ head is @3", text)
    assert text.rstrip().endswith("undo:  relight undo fix")
    assert tree(work) == {"cart.py": b"one\ntwo\n", ".env": b"KEY=1\n"}
    assert shell.json("show", "fix")["head"] == GREEN
    assert shell.run("undo", "fix").returncode == 0
    assert tree(work) == before
    assert shell.json("show", "fix")["head"] == HEAD


def test_the_preview_names_what_the_user_changed(shell: Shell, mine: Path) -> None:
    screen = shell.screen("rewind", "fix@green", keys=b"\n", when="what goes back?", NO_COLOR="1")
    assert re.search(rf"M cart\.py +you changed this after @{HEAD}", screen.text)
    assert "kept: 1 that no snapshot holds" in screen.text
    assert "nothing was changed" in screen.text


@pytest.mark.parametrize("scope", ["conversation", "files", "both"])
def test_each_scope_moves_what_it_says(shell: Shell, work: Path, scope: str) -> None:
    before = tree(work)
    screen = shell.screen("rewind", "fix@green", f"--{scope}")
    assert screen.code == 0, screen.text
    moved = tree(work) == {"cart.py": b"one\ntwo\n", ".env": b"KEY=1\n"}
    assert moved == (scope != "conversation")
    assert (tree(work) == before) == (scope == "conversation")
    assert (shell.json("show", "fix")["head"] == GREEN) == (scope != "files")
    assert ("stay as they are" in screen.text) == (scope == "conversation")


def test_files_may_follow_the_conversation_later(shell: Shell, work: Path) -> None:
    assert shell.run("rewind", "fix@green", "--conversation").returncode == 0
    assert shell.run("rewind", "fix@green", "--files").returncode == 0
    assert tree(work) == {"cart.py": b"one\ntwo\n", ".env": b"KEY=1\n"}


def test_a_rewind_without_scope_or_terminal_touches_nothing(shell: Shell, mine: Path) -> None:
    before, files = shell.store.read_bytes(), tree(mine)
    done = shell.run("rewind", "fix@green")
    assert (done.returncode, "(RL-1004)" in done.stderr) == (2, True)
    assert shell.run("rewind", "fix@green", "--conversation", "--force").returncode == 2
    assert shell.store.read_bytes() == before
    assert tree(mine) == files


def test_a_rewind_asked_about_does_nothing_by_default(shell: Shell, mine: Path) -> None:
    before, files = logical_dump(shell.store), tree(mine)
    for answer in (b"\n", b"x\n"):
        assert shell.screen("rewind", "fix@green", keys=answer, when="what goes back?").code == 0
    assert logical_dump(shell.store) == before
    assert tree(mine) == files


def test_what_was_never_captured_cannot_go_back(shell: Shell, work: Path) -> None:
    done = shell.run("rewind", "fix@1", "--files")
    assert (done.returncode, "(RL-4000)" in done.stderr) == (4, True)
    assert "relight rewind fix@1 --conversation" in done.stderr
    screen = shell.screen("rewind", "fix@1", keys=b"c\n", when="what goes back?")
    assert (screen.code, "no snapshot of the files" in screen.text) == (0, True)


def test_operations_are_told_readably(shell: Shell, work: Path) -> None:
    for words in (["rewind", "fix@green", "--both"], ["undo", "fix"], ["restore", "fix@green"]):
        assert shell.run(*words).returncode == 0
    reported = [line.split("\t")[2:4] for line in shell.run("tail", "fix", "--after", str(HEAD)).stdout.splitlines()]
    assert reported == [
        ["rewind", "begins; safety snapshot of main"],
        ["rewind", "back to @3, files too"],
        ["undo", "begins; safety snapshot of main"],
        ["undo", f"@{HEAD + 1} undone, back to @{HEAD}, files too"],
        ["restore", "begins; safety snapshot of main"],
        ["restore", "files restored"],
    ]
    assert "back to @3, files too" in shell.run("show", "fix").stdout


def test_a_note_that_is_no_operation_is_told_without_failing() -> None:
    status = {"status": "failed", "reason": "boom", "question": None}
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for forged in ("undo", 7, ["undo"]):
        note = {"operation_end": forged}
        event = Event(session="s", seq=1, kind="rewind", at=at, attempt=1, label=None, note=note, status=status)
        assert "failed: boom" in [row.text for row in Narrator().rows(event)]


# -- forks ----------------------------------------------------------------------------------------------------


def test_a_fork_gets_its_files_in_a_directory_of_its_own(shell: Shell, work: Path, tmp_path: Path) -> None:
    before, own = tree(work), tmp_path / "try" / "two"
    made = shell.json("fork", "fix@green", "try again", "--name", "again", "--workspace", str(own))
    assert made["workspace"] == {"main": str(own)}
    assert tree(own) == {"cart.py": b"one\ntwo\n"}
    assert tree(work) == before
    with relight.open(shell.store) as rl, rl.session("again") as s:
        (own / "cart.py").write_text("forked\n")
        s.append({"role": "assistant", "content": "done"})
    assert tree(work) == before
    assert shell.json("diff", "again@green", "again")[0]["path"] == "cart.py"


def test_a_fork_is_refused_before_a_directory_is_made(shell: Shell, work: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    assert shell.run("fork", "fix", "--name", "fix", "--workspace", str(own)).returncode == 4
    assert not own.exists()
    assert shell.run("fork", "fix", "--workspace", str(work)).returncode == 4
    assert len(shell.json("list")) == 1


def test_a_fork_says_where_its_files_will_be_and_makes_nothing(shell: Shell, work: Path) -> None:
    before = sorted(work.parent.iterdir())
    made = shell.run("fork", "fix@green", "--name", "other")
    own = work.with_name(f"{work.name}-other")
    assert (made.returncode, f"its files will be in {own}, as of the checkpoint" in made.stderr) == (0, True)
    assert sorted(work.parent.iterdir()) == before


# -- housekeeping ---------------------------------------------------------------------------------------------


def test_removing_counts_files_beside_the_journal_and_leaves_no_byte(shell: Shell, work: Path) -> None:
    canary = os.urandom(3000).hex()
    (work / "canary").write_text(canary)
    with relight.open(shell.store) as rl, rl.session("fix") as s:
        s.append({"role": "assistant", "content": "kept"})
    planned = shell.json("rm", "fix", "--dry-run")
    assert planned["file_bytes"] > 2000
    assert re.search(r" of journal, [\d.]+ kB of files would be removed", shell.run("rm", "fix", "--dry-run").stderr)
    assert re.search(r"of journal, [\d.]+ kB of files, permanently\?", shell.screen("rm", "fix", keys=b"\n").text)
    assert shell.json("rm", "fix", "--yes")["file_bytes"] > 2000
    left = files_below(shell.store.parent)
    assert not [one for one, data in left if b"canary" in data or canary[:64].encode() in data]
    assert (work / "canary").read_text() == canary


def test_a_sweep_forecasts_files_beside_the_journal(shell: Shell, rl: relight.Relight) -> None:
    (shell.directory / "big").write_bytes(os.urandom(50_000))
    with rl.session("over", workspace=str(shell.directory)) as s:
        s.append({"role": "user", "content": "hello"})
        s.complete()
    assert shell.json("sweep", "--dry-run", "--days", "0")["file_bytes"] == 0  # within the period of grace
    for segment in Path(f"{shell.store}.blobs").rglob("*.seg"):
        os.utime(segment, (time.time() - 7200, time.time() - 7200))
    planned = shell.json("sweep", "--dry-run", "--days", "0")
    assert (planned["names"], planned["file_bytes"] > 50_000) == (["over"], True)
    assert re.search(
        r"of journal, 5\d kB of files would be removed", shell.run("sweep", "--dry-run", "--days", "0").stderr
    )


def test_doctor_shows_sizes_limits_and_live_workspaces(shell: Shell, rl: relight.Relight, tmp_path: Path) -> None:
    location = tmp_path / "live"
    location.mkdir()
    (location / "a").write_bytes(os.urandom(20_000))
    with rl.session("alive", workspace=str(location)) as s:
        s.append({"role": "user", "content": "hello"})
        found = {one["what"]: one for one in shell.json("doctor")}
        assert {"journal", "files", "disk", "watching", "workspace"} <= set(found)
        assert re.match(r"2\d kB of captured files", found["files"]["text"])
        assert found["workspace"]["fine"] is True
        location.rename(tmp_path / "away")
        lost = {one["what"]: one for one in shell.json("doctor")}["workspace"]
        assert (lost["fine"], "missing" in lost["text"], "--restore" in lost["cure"]) == (False, True, True)
        (tmp_path / "away").rename(location)


@pytest.fixture
def limits(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "max_user_watches").write_text("100\n")
    (tmp_path / "max_user_instances").write_text("128\n")
    yield tmp_path


def test_too_few_watches_have_a_cure(limits: Path) -> None:
    found = watching(limits)
    assert (found.fine, "sysctl" in found.cure) == (False, True)
    (limits / "max_user_watches").write_text("524288\n")
    assert watching(limits).fine


def test_files_verbs_take_refs_from_the_shell(shell: Shell, work: Path) -> None:
    def complete(line: str) -> Any:
        words = line.split(" ")
        return shell.run(_RELIGHT_COMPLETE="fish_complete", COMP_WORDS=line, COMP_CWORD=words[-1]).stdout

    for verb in ("diff", "restore", "undo"):
        assert "fix\tterminated" in complete(f"relight {verb} f")
    assert "fix@green" in complete("relight restore fix@g")
    assert json.loads(shell.run("undo", "fix", "--list", "--json").stdout) == []


# -- what is not there ----------------------------------------------------------------------------------------


def test_a_checkpoint_names_what_it_does_not_hold(shell: Shell, work: Path) -> None:
    assert re.search(r"^  left out +\.env \(secret.*\)$", shell.run("show", "fix@green").stdout, re.MULTILINE)
    shown = shell.json("show", "fix@green")
    assert [(one["path"], one["reason"]) for one in shown["left_out"]] == [(".env", "secret")]


@pytest.mark.parametrize(
    ("path", "exit_code", "says"),
    [
        ("no/such/file", 3, "no captured file matches 'no/such/file'"),
        (".env", 3, "it was left out of the snapshot: secret"),
        ("../secrets", 2, "'../secrets' is outside the workspace"),
        ("lib/../../secrets", 2, "is outside the workspace"),
        ("/etc/passwd", 2, "'/etc/passwd' is outside the workspace"),
    ],
)
def test_a_path_that_cannot_be_restored_is_refused(
    shell: Shell, work: Path, path: str, exit_code: int, says: str
) -> None:
    before = tree(work)
    for flags in (["--dry-run"], ["--force"]):
        done = shell.run("restore", "fix@green", path, *flags)
        assert done.returncode == exit_code, done.stdout + done.stderr
        assert says in done.stderr
    assert tree(work) == before


@pytest.mark.parametrize("path", ["./cart.py", "lib/../cart.py", "ABSOLUTE"])
def test_a_path_may_be_spelled_as_one_likes(shell: Shell, work: Path, path: str) -> None:
    asked = str(work / "cart.py") if path == "ABSOLUTE" else path
    [plan] = shell.json("restore", "fix@green", asked, "--dry-run")["plans"].values()
    assert (plan["written"], plan["deleted"]) == (["cart.py"], [])


def test_no_hint_speaks_of_a_ref_that_nobody_typed(shell: Shell, work: Path, rl: relight.Relight) -> None:
    work.rename(work.with_name("elsewhere"))
    aside = Shell(shell.store, shell.store.parent)
    for words in (["diff", "fix@green"], ["restore", "fix@green", "--dry-run"]):
        done = aside.run(*words)
        assert done.returncode == 4, done.stderr
        assert "REF" not in done.stderr and "relight restore fix" in done.stderr, done.stderr
    with pytest.raises(relight.errors.WorkspaceUnusable) as refused:
        rl.session("another", workspace=str(work))
    assert refused.value.hints == (f"create it first: mkdir -p {work}",)
