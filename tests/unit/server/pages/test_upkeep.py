"""The daily look at the store: every digest, a restore drill, its growth; and what the operator's page says of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import apsw
import pytest

import relight
from relight.files.drill import DrillBudget, restore_into
from relight.server.jobs.upkeep import Size, growth_of
from relight.testing.clock import ManualClock
from relight.values.snapshot import Change, Entry, Skipped
from tests.support.server_harness import ServerHarness

DAY = 86_400_000_000


def work(harness: ServerHarness, directory: Path, name: str = "files") -> str:
    """A session with captured files, one of them large, one a link, one of an odd name."""
    (directory / "below").mkdir(parents=True)
    (directory / "a.txt").write_text("first\n")
    (directory / "below" / "big.bin").write_bytes(os.urandom(3_000_000))
    (directory / "link").symlink_to("a.txt")
    (directory / os.fsdecode(b"odd \xff name")).write_text("x")
    with harness.rl.session(name, workspace=directory) as s:
        s.append({"role": "user", "content": "hello"})
        s.complete(1)
        return str(s.id)


def operations(harness: ServerHarness) -> str:
    return harness.client("read").get("/operations", headers={"accept": "text/html"}).text


def test_a_whole_store_is_read_and_brought_back_and_that_is_told(harness: ServerHarness, tmp_path: Path) -> None:
    assert "not yet: digests are verified once a day" in operations(harness)
    work(harness, tmp_path / "work")
    with harness.rl.session("words-only") as s:
        s.append({"role": "user", "content": "hello"})
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    harness.service.upkeep.run_once(pause_factor=0)
    verified, drilled = harness.service.upkeep.verified, harness.service.upkeep.drilled
    assert verified is not None and (verified.sessions, verified.broken) == (2, 0) and verified.steps > 3
    assert drilled is not None and (drilled.restored, drilled.tried, drilled.files) == (1, 1, 4), drilled
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before, "a drill leaves nothing behind"
    text = operations(harness)
    assert "2 sessions, 0 broken" in text and "1 of 1 restored, 4 files" in text
    document = harness.client("read").get("/api/upkeep").json()
    assert document["verified"]["sessions"] == 2 and document["growth"] is None


def test_a_damaged_step_is_found_and_named(harness: ServerHarness) -> None:
    with harness.rl.session("broken") as s:
        s.append({"role": "user", "content": "hello"})
    connection = apsw.Connection(str(harness.store))
    connection.execute("UPDATE bodies SET data = x'00ff' WHERE id = (SELECT max(body) FROM steps)")
    connection.close()
    harness.service.upkeep.run_once(pause_factor=0)
    assert "1 session, 1 broken: broken" in operations(harness)


def test_files_that_do_not_come_back_are_told(harness: ServerHarness, tmp_path: Path) -> None:
    work(harness, tmp_path / "work")
    segments = [
        path for path in Path(f"{harness.store}.blobs").rglob("*") if path.is_file() and path.stat().st_size > 1e6
    ]
    assert segments, "where the captured files lie"
    for path in segments:
        path.chmod(0o600)
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    harness.service.upkeep.run_once(pause_factor=0)
    drilled = harness.service.upkeep.drilled
    assert drilled is not None and (drilled.restored, drilled.tried) == (0, 1) and drilled.trouble.startswith("files: ")
    assert "0 of 1 restored" in operations(harness)


def test_of_two_servers_one_looks_and_who_died_on_the_way_is_followed(tmp_path: Path) -> None:
    clock = ManualClock()
    first = ServerHarness(tmp_path / "p.db", clock=clock)
    second = ServerHarness.again(tmp_path / "p.db", clock=clock)
    try:
        assert first.service.upkeep._is_due() and not second.service.upkeep._is_due()
        clock.advance(601)
        assert second.service.upkeep._is_due(), "the first one said nothing for ten minutes"
        second.service.upkeep.run_once(pause_factor=0)
        clock.advance(3600)
        assert not first.service.upkeep._is_due()
        clock.advance(23 * 3600)
        assert first.service.upkeep._is_due(), "a day later"
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize(
    ("sizes", "free", "reported"),
    [
        ([], 10, None),
        ([(0, 5), (DAY - 1, 50)], 10, None),
        ([(0, 100), (2 * DAY, 300)], 1000, (100.0, 10.0)),
        ([(0, 100), (DAY, 100)], 1000, (0.0, None)),
        ([(0, 300), (DAY, 100)], 1000, (-200.0, None)),
        ([(0, 100), (DAY, 200)], None, (100.0, None)),
    ],
)
def test_growth_is_told_of_days_not_of_moments(
    sizes: list[tuple[int, int]], free: int | None, reported: tuple[float, float | None] | None
) -> None:
    found = growth_of([Size(at_us=at, size_bytes=size) for at, size in sizes], free_bytes=free)
    assert (found and (found.bytes_a_day, found.full_in_days)) == reported


def test_a_disk_that_will_soon_be_full_is_a_warning(tmp_path: Path) -> None:
    clock = ManualClock()
    harness = ServerHarness(tmp_path / "p.db", clock=clock)
    try:
        harness.service.upkeep.run_once(pause_factor=0)
        clock.advance(86_400 * 2)
        free = 10**18
        harness.service.state.set_meta("sizes", f"[[0,0],[{DAY},{free}]]")
        text = operations(harness)
        assert "a day, disk full in 0 days" in text
    finally:
        harness.close()


class Lying:
    """Content that gives something else than what was captured. Keeps `ports.workspace.Content`."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def entries(self, snapshot: str) -> dict[bytes, Entry]:
        return {b"below/a.txt": Entry(name=b"a.txt", kind="file", ref=sha256(b"first\n").digest(), size_bytes=6)}

    def walk(self, snapshot: str) -> Iterator[tuple[bytes, Entry]]:
        return iter(self.entries(snapshot).items())

    def pieces(self, entry: Entry) -> Iterator[bytes]:
        return iter([self._data])

    def read(self, snapshot: str, path: bytes) -> bytes:
        return self._data

    def diff(self, before: str, after: str) -> tuple[Change, ...]:
        return ()

    def skipped(self, snapshot: str) -> tuple[Skipped, ...]:
        return ()

    def close(self) -> None:
        return


def test_what_comes_back_is_compared_with_what_was_captured_not_with_itself(tmp_path: Path) -> None:
    good, bad, short = (Lying(data) for data in (b"first\n", b"fir5t\n", b"first"))
    room = DrillBudget(100)
    restore_into(good, "s", tmp_path / "good", room)
    assert (room.files, room.size_bytes) == (1, 6)
    for number, content in enumerate((bad, short)):
        with pytest.raises(OSError, match=r"below/a\.txt did not come back"):
            restore_into(content, "s", tmp_path / str(number), DrillBudget(100))


def test_a_store_whose_own_check_finds_damage_is_told(tmp_path: Path) -> None:
    with relight.open(tmp_path / "p.db") as rl, rl.session("one") as s:
        s.append({"role": "user", "content": "hello"})
        s.checkpoint("here")
    connection = apsw.Connection(str(tmp_path / "p.db"))
    index = "SELECT rootpage FROM sqlite_schema WHERE name = 'checkpoint_labels_label'"
    page, size = connection.execute(index).get, connection.pragma("page_size")
    connection.close()
    with (tmp_path / "p.db").open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * 64)
    harness = ServerHarness(tmp_path / "p.db")
    try:
        harness.service.upkeep.run_once(pause_factor=0)
        verified = harness.service.upkeep.verified
    finally:
        harness.close()
    assert verified is not None and verified.broken >= 1, verified
