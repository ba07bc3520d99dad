"""`diff`: what differs between checkpoints, or from the disk, and what was left out; names of any bytes."""

from __future__ import annotations

import os
import shutil

import pytest

from relight.errors import Conflict, NotFound
from relight.files.diff import FileDiff
from tests.support.files_harness import FilesHarness, reply, rows, user


def changed(harness: FilesHarness) -> tuple[dict[str, FileDiff], list[FileDiff]]:
    """Two checkpoints with a bit of everything between them; what the diff says of them, by path."""
    rl = harness.start()
    odd = os.fsencode(harness.root) + b"/odd-\xff\xfe\n"
    with rl.session("agent", workspace=harness.root) as s:
        harness.write("text", "a\nb\nc\n")
        harness.write("no-end", "x")
        harness.write("binary", b"\0\1\2")
        harness.write("gone", "1\n2\n")
        harness.write("page", "one\x0cstill one\u2028still one\n")
        os.symlink("here", harness.root / "link")
        s.append(reply("1"))
        harness.write("text", "a\nB\nc\nd\n")
        harness.write("no-end", "y")
        harness.write("binary", b"\0\1\3\4")
        harness.write("page", "two\x0cstill one\u2028still one\n")
        (harness.root / "gone").unlink()
        (harness.root / "link").unlink()
        os.symlink("there", harness.root / "link")
        harness.write(".claude/settings.json", "{}")
        harness.write("latin", b"caf\xe9\n")
        with open(odd, "wb") as file:
            file.write(b"odd\n")
        os.mkfifo(harness.root / "pipe")
        harness.write(".env", "SECRET=1")
        s.append(reply("2"))
    found = rl.files.diff("agent@2", "agent@3")
    return {one.path: one for one in found}, found


def test_text_is_compared_line_by_line(harness: FilesHarness) -> None:
    by_path, _ = changed(harness)
    text = by_path["text"]
    assert (text.what, text.lines_added, text.lines_removed) == ("changed", 2, 1)
    assert text.text == "--- a/text\n+++ b/text\n@@ -1,3 +1,4 @@\n a\n-b\n+B\n c\n+d\n"
    assert by_path["gone"].what == "deleted" and by_path["gone"].lines_removed == 2
    unended = by_path["no-end"].text or ""
    assert unended.endswith("-x\n\\ No newline at end of file\n+y\n\\ No newline at end of file\n")
    page = by_path["page"]
    assert (page.lines_added, page.lines_removed) == (1, 1), "something other than a newline ended a line"


def test_what_is_not_text_is_named_with_its_sizes(harness: FilesHarness) -> None:
    by_path, _ = changed(harness)
    binary = by_path["binary"]
    assert (binary.text, binary.lines_added, binary.size_before, binary.size_after) == (None, None, 3, 4)
    assert by_path["latin"].text is None and by_path["latin"].size_after == 5
    link = by_path["link"]
    assert link.kind == "link" and "-here" in (link.text or "") and "+there" in (link.text or "")


def test_what_was_left_out_is_told_with_its_reason(harness: FilesHarness) -> None:
    by_path, found = changed(harness)
    assert {one.path: one.kind for one in found if one.what == "left out"} == {"pipe": "fifo", ".env": "secret"}
    assert by_path[".claude/settings.json"].may_run_later and not by_path["text"].may_run_later


def test_a_name_that_is_no_text_leads_back_to_its_file(harness: FilesHarness) -> None:
    by_path, _ = changed(harness)
    [odd] = [path for path in by_path if path.startswith("odd-")]
    assert os.fsencode(odd) == b"odd-\xff\xfe\n"
    assert by_path[odd].what == "added" and by_path[odd].lines_added == 1
    assert (harness.root / odd).read_bytes() == b"odd\n"


def test_the_disk_is_compared_without_a_trace(harness: FilesHarness) -> None:
    rl = harness.start()
    one, two = harness.working(rl, "one", "two")
    harness.write("file", "three")
    harness.write("new", os.urandom(3000))
    stored = {path: path.stat().st_mtime_ns for path in harness.blobs.rglob("*") if path.is_file()}
    before = rows(rl)
    assert {(one.path, one.what) for one in rl.files.diff(f"agent@{two}")} == {("file", "changed"), ("new", "added")}
    [text] = [one.text for one in rl.files.diff(f"agent@{one}") if one.path == "file"]
    assert "-one" in (text or "") and "+three" in (text or "")
    assert rows(rl) == before
    now = {path: path.stat().st_mtime_ns for path in harness.blobs.rglob("*") if path.is_file()}
    assert now == stored, "looking left something behind"


def test_two_checkpoints_are_compared_though_the_directory_is_gone(harness: FilesHarness) -> None:
    rl = harness.start()
    one, two = harness.working(rl, "one", "two")
    shutil.rmtree(harness.root)
    assert [found.path for found in rl.files.diff(f"agent@{one}", f"agent@{two}")] == ["file"]


def test_what_cannot_be_compared_is_refused(harness: FilesHarness) -> None:
    rl = harness.start()
    one, _ = harness.working(rl, "one", "two")
    with rl.session("bare") as s:
        s.append(user("no files"))
    with pytest.raises(NotFound, match="snapshot of the files"):
        rl.files.diff("bare")
    assert rl.files.diff("agent@1", f"agent@{one}") == [], "before the first capture stands the first"
    other = harness.path / "other"
    other.mkdir()
    (other / "x").write_text("x")
    with rl.session("other", workspace=other) as s:
        s.append(user("1"))
    with pytest.raises(Conflict, match="different pools"):
        rl.files.diff("agent", "other")
