"""`verify` reads captured files too: a checkpoint whose files could not be restored is named."""

from __future__ import annotations

from tests.files.desk import Desk


def test_a_flipped_byte_in_captured_files_is_named_with_its_checkpoint(desk: Desk) -> None:
    rl = desk.start()
    one, two = desk.working(rl, "one " * 400, "two " * 400)
    assert rl.verify("agent").ok
    rl.close()
    for segment in desk.blobs.rglob("*.seg"):
        content = bytearray(segment.read_bytes())
        content[len(content) // 2] ^= 1
        segment.write_bytes(content)
    rl = desk.start()
    report = rl.verify("agent")
    assert not report.ok
    assert {problem.seq for problem in report.problems} & {one, two}
    assert all("files of main" in problem.what for problem in report.problems)
    assert rl.load("agent").messages
