"""Files of a checkpoint: what cannot be compared can be had, and white space can be left out of what is compared."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from relight.server.pages.files import diff_lines
from tests.support.server_harness import ServerHarness

BINARY = b"\0\1\2<script>alert(1)</script>"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerHarness, str]]:
    """A session with a binary file, then another one, and files whose names are no text."""
    base = tmp_path_factory.mktemp("files")
    work = base / "work"
    work.mkdir()
    harness = ServerHarness(base / "p.db")
    with harness.rl.session("files", workspace=work) as s:
        s.append({"role": "user", "content": "a"})
        s.checkpoint("before")
        (work / "data.bin").write_bytes(BINARY)
        for n in range(6):
            (work / os.fsdecode(b"odd %d \xff.txt" % n)).write_text("x\n")
        (work / os.fsdecode(b"odd \xff.bin")).write_bytes(BINARY)
        s.append({"role": "user", "content": "b"})
        s.checkpoint("after")
        session = str(s.id)
        s.complete(1)
    yield harness, session
    harness.close()


def compared(harness: ServerHarness, session: str) -> tuple[str, str]:
    before = harness.rl.history.checkpoint("files@before").seq
    return f"/checkpoints/{session}@after?compare=other&other=@{before}", f"/sessions/{session}?tab=files"


def test_what_cannot_be_compared_can_be_had_as_it_was(made: tuple[ServerHarness, str]) -> None:
    harness, session = made
    client = harness.client("read")
    seq = harness.rl.history.checkpoint("files@after").seq
    for path in compared(harness, session):
        text = client.get(path, headers={"accept": "text/html"}).text
        assert "file?root=main&amp;path=data.bin" in text, path
    got = client.get(f"/api/checkpoints/{session}@{seq}/file?root=main&path=data.bin")
    assert (got.status_code, got.content, got.headers["content-type"]) == (200, BINARY, "application/octet-stream")
    assert got.headers["content-disposition"] == 'attachment; filename="data.bin"'
    assert got.headers["content-security-policy"] == "sandbox" and got.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "asked",
    ["path=../../etc/passwd", "path=/etc/passwd", "path=none", "root=x&path=data.bin", "path=data.bin%00", "path=work"],
)
def test_only_what_the_checkpoint_holds_can_be_had(made: tuple[ServerHarness, str], asked: str) -> None:
    harness, session = made
    assert harness.client("read").get(f"/api/checkpoints/{session}@after/file?{asked}").status_code == 404
    assert harness.client("read").get(f"/api/checkpoints/{session}@before/file?path=data.bin").status_code == 404


def test_a_name_that_is_no_text_is_shown_and_breaks_nothing(made: tuple[ServerHarness, str]) -> None:
    harness, session = made
    client = harness.client("read")
    for path in compared(harness, session):
        answer = client.get(path, headers={"accept": "text/html"})
        assert answer.status_code == 200 and answer.text.count("odd ") >= 7, path


def test_lines_that_differ_by_white_space_alone_are_marked_so_that_they_can_be_left_out() -> None:
    text = "--- a\n+++ b\n@@ -1,4 +1,4 @@\n-if x:\n-  y = 1\n+if  x:\n+    y = 2\n-old\n+new\n+more\n"
    kinds = [kind for kind, _ in diff_lines(text)]
    assert kinds == ["hunk", "del ws", "del", "add ws", "add", "del", "add", "add"]
