"""`diff`: what differs between checkpoints, or from the disk, and what was left out; names of any bytes."""

from __future__ import annotations

import os
import shutil

import pytest

from relight.errors import Conflict, NotFound
from relight.files.diff import FileDiff
from tests.files.desk import Desk, reply, rows, user


def changed(desk: Desk) -> tuple[dict[str, FileDiff], list[FileDiff]]:
    """Two checkpoints with a bit of everything between them; what the diff says of them, by path."""
    rl = desk.start()
    odd = os.fsencode(desk.root) + b"/odd-\xff\xfe\n"
    with rl.session("agent", workspace=desk.root) as s:
        desk.write("text", "a\nb\nc\n")
        desk.write("no-end", "x")
        desk.write("binary", b"\0\1\2")
        desk.write("gone", "1\n2\n")
        desk.write("page", "one\x0cstill one\u2028still one\n")
        os.symlink("here", desk.root / "link")
        s.append(reply("1"))
        desk.write("text", "a\nB\nc\nd\n")
        desk.write("no-end", "y")
        desk.write("binary", b"\0\1\3\4")
        desk.write("page", "two\x0cstill one\u2028still one\n")
        (desk.root / "gone").unlink()
        (desk.root / "link").unlink()
        os.symlink("there", desk.root / "link")
        desk.write(".claude/settings.json", "{}")
        desk.write("latin", b"caf\xe9\n")
        with open(odd, "wb") as file:
            file.write(b"odd\n")
        os.mkfifo(desk.root / "pipe")
        desk.write(".env", "SECRET=1")
        s.append(reply("2"))
    found = rl.diff("agent@2", "agent@3")
    return {one.path: one for one in found}, found


def test_text_is_compared_line_by_line(desk: Desk) -> None:
    by_path, _ = changed(desk)
    text = by_path["text"]
    assert (text.what, text.lines_added, text.lines_removed) == ("changed", 2, 1)
    assert text.text == "--- a/text\n+++ b/text\n@@ -1,3 +1,4 @@\n a\n-b\n+B\n c\n+d\n"
    assert by_path["gone"].what == "deleted" and by_path["gone"].lines_removed == 2
    unended = by_path["no-end"].text or ""
    assert unended.endswith("-x\n\\ No newline at end of file\n+y\n\\ No newline at end of file\n")
    page = by_path["page"]
    assert (page.lines_added, page.lines_removed) == (1, 1), "something other than a newline ended a line"


def test_what_is_not_text_is_named_with_its_sizes(desk: Desk) -> None:
    by_path, _ = changed(desk)
    binary = by_path["binary"]
    assert (binary.text, binary.lines_added, binary.size_before, binary.size_after) == (None, None, 3, 4)
    assert by_path["latin"].text is None and by_path["latin"].size_after == 5
    link = by_path["link"]
    assert link.kind == "link" and "-here" in (link.text or "") and "+there" in (link.text or "")


def test_what_was_left_out_is_told_with_its_reason(desk: Desk) -> None:
    by_path, found = changed(desk)
    assert {one.path: one.kind for one in found if one.what == "left out"} == {"pipe": "fifo", ".env": "secret"}
    assert by_path[".claude/settings.json"].may_run_later and not by_path["text"].may_run_later


def test_a_name_that_is_no_text_leads_back_to_its_file(desk: Desk) -> None:
    by_path, _ = changed(desk)
    [odd] = [path for path in by_path if path.startswith("odd-")]
    assert os.fsencode(odd) == b"odd-\xff\xfe\n"
    assert by_path[odd].what == "added" and by_path[odd].lines_added == 1
    assert (desk.root / odd).read_bytes() == b"odd\n"


def test_the_disk_is_compared_without_a_trace(desk: Desk) -> None:
    rl = desk.start()
    one, two = desk.working(rl, "one", "two")
    desk.write("file", "three")
    desk.write("new", os.urandom(3000))
    stored = {path: path.stat().st_mtime_ns for path in desk.blobs.rglob("*") if path.is_file()}
    before = rows(rl)
    assert {(one.path, one.what) for one in rl.diff(f"agent@{two}")} == {("file", "changed"), ("new", "added")}
    [text] = [one.text for one in rl.diff(f"agent@{one}") if one.path == "file"]
    assert "-one" in (text or "") and "+three" in (text or "")
    assert rows(rl) == before
    now = {path: path.stat().st_mtime_ns for path in desk.blobs.rglob("*") if path.is_file()}
    assert now == stored, "looking left something behind"


def test_two_checkpoints_are_compared_though_the_directory_is_gone(desk: Desk) -> None:
    rl = desk.start()
    one, two = desk.working(rl, "one", "two")
    shutil.rmtree(desk.root)
    assert [found.path for found in rl.diff(f"agent@{one}", f"agent@{two}")] == ["file"]


def test_what_cannot_be_compared_is_refused(desk: Desk) -> None:
    rl = desk.start()
    one, _ = desk.working(rl, "one", "two")
    with rl.session("bare") as s:
        s.append(user("no files"))
    with pytest.raises(NotFound, match="snapshot of the files"):
        rl.diff("bare")
    assert rl.diff("agent@1", f"agent@{one}") == [], "before the first capture stands the first"
    other = desk.path / "other"
    other.mkdir()
    (other / "x").write_text("x")
    with rl.session("other", workspace=other) as s:
        s.append(user("1"))
    with pytest.raises(Conflict, match="different pools"):
        rl.diff("agent", "other")
