"""`verify` reads captured files too: a checkpoint whose files could not be restored is named."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

import relight
from relight.errors import Corrupt
from relight.stores.stored_rows import label_seal, row_seal
from tests.support.figures import Figure
from tests.support.files_harness import FilesHarness, reply, user


def test_a_flipped_byte_in_captured_files_is_named_with_its_checkpoint(harness: FilesHarness) -> None:
    rl = harness.start()
    one, two = harness.working(rl, "one " * 400, "two " * 400)
    assert rl.history.verify("agent").ok
    rl.close()
    for segment in harness.blobs.rglob("*.seg"):
        content = bytearray(segment.read_bytes())
        content[len(content) // 2] ^= 1
        segment.write_bytes(content)
    rl = harness.start()
    report = rl.history.verify("agent")
    assert not report.ok
    assert {problem.seq for problem in report.problems} & {one, two}
    assert all("files of main" in problem.what for problem in report.problems)
    assert rl.history.load("agent").messages


@pytest.mark.guarantee("G28")
def test_files_and_labels_that_are_not_what_the_step_says_are_named(tmp_path: Path, figure: Figure) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    with relight.open(tmp_path / "a.db") as rl, rl.session("a", workspace=root) as s:
        (root / "pay.py").write_text("amount = 1\n")
        s.append(user("pay 1"))
        (root / "pay.py").write_text("amount = 1000000\n")
        s.append(reply("paid 1"))
        s.checkpoint("good")
        s.checkpoint("dropped")
        rl.history.forget("a@dropped")
        rl.history.label("a@3", "dropped")
        rl.history.label("a@3", "later")
        assert rl.history.verify("a").problems == []
    with closing(apsw.Connection(str(tmp_path / "a.db"))) as connection:
        rows: list[Any] = connection.execute("SELECT sid, seq, root, pool, id FROM snapshots ORDER BY seq").fetchall()
        newest = rows[-1][4]
        for sid, seq, name, pool, _ in rows:
            seal = row_seal("snapshot", sid, seq, name, pool, newest)
            connection.execute(
                "UPDATE snapshots SET id = ?, seal = ? WHERE sid = ? AND seq = ?", (newest, seal, sid, seq)
            )
        label: Any
        (label,) = connection.execute("SELECT id, sid FROM checkpoint_labels WHERE label = 'good'").fetchall()
        moved = label_seal(label[1], 2, "good")
        connection.execute("UPDATE checkpoint_labels SET seq = 2, seal = ? WHERE id = ?", (moved, label[0]))
    with relight.open(tmp_path / "a.db") as rl:
        reported = {(one.seq, one.what) for one in rl.history.verify("a").problems}
        assert (2, "its files are not those that the step named") in reported
        assert (4, "its step was given the label 'good', which is not there any more") in reported
        assert len(reported) == 2
        for act in (rl.files.restore, rl.files.diff, lambda ref: rl.history.fork(ref, workspace=str(tmp_path / "f"))):
            with pytest.raises(Corrupt, match="not those that the step named"):
                act("a@2")
    figure("G28", "2 columns of a snapshot's row and 2 of a label's changed, seals computed anew: both named")
