"""Conformance kit of the blob port: checks for the whole contract of `relight.ports.blobs`.

    class TestMyBlobs(BlobKit):
        def make_blobs(self):
            return MyBlobs(...)

is all that pytest needs. Without pytest:

    report = run(lambda: MyBlobs(...))
    print(report)

Each check gets an empty blob store.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

from relight.ports.blobs import Blobs, list_all
from relight.testing.checks import Report, add_tests, report_of

Check = Callable[[Blobs], None]
LARGE_BYTES: Final = 6 * 1024 * 1024 + 17
WRITERS: Final = 8
_MANY: Final = 25


def what_is_put_is_read_back(blobs: Blobs) -> None:
    """Any bytes are read back unchanged; a missing blob is None."""
    for key, data in {"a/empty": b"", "a/text": b"hello", "a/bytes": bytes(range(256)) * 40}.items():
        assert blobs.get(key) is None and blobs.stat(key) is None and blobs.get_range(key, 0, 4) is None
        assert blobs.put(key, data) is True
        assert blobs.get(key) == data
        found = blobs.stat(key)
        assert found is not None and (found.key, found.size_bytes) == (key, len(data))


def a_name_is_written_once(blobs: Blobs) -> None:
    """A second put of the same name returns False and changes nothing."""
    assert blobs.put("pool/segment/0", b"first") is True
    assert blobs.put("pool/segment/0", b"second") is False
    assert blobs.put("pool/segment/0", b"") is False
    assert blobs.get("pool/segment/0") == b"first"


def of_two_writers_one_wins(blobs: Blobs) -> None:
    """Of many concurrent puts of one name exactly one returns True, and its bytes are stored."""
    winners: list[bytes] = []
    problems: list[BaseException] = []
    barrier = threading.Barrier(WRITERS)

    def write(number: int) -> None:
        data = bytes([number]) * 70_000
        try:
            barrier.wait(30)
            if blobs.put("pool/race", data):
                winners.append(data)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not problems, problems[0]
    assert len(winners) == 1, f"{len(winners)} of {WRITERS} concurrent puts returned True"
    assert blobs.get("pool/race") == winners[0]


def a_large_one_is_whole(blobs: Blobs) -> None:
    """A blob larger than one request or row is read back, whole and in ranges."""
    data = b"".join(number.to_bytes(4, "big") for number in range(LARGE_BYTES // 4))
    assert blobs.put("a/large", data) is True
    assert blobs.put("a/large", b"other") is False
    assert blobs.get("a/large") == data
    for start, length in ((0, 8), (5 * 1024 * 1024 - 3, 900_000), (len(data) - 4, 4), (len(data) - 4, 100)):
        assert blobs.get_range("a/large", start, length) == data[start : start + length]


def a_range_ends_where_the_blob_does(blobs: Blobs) -> None:
    """A range beyond the end of a blob is shorter or empty, and no error."""
    blobs.put("a/short", b"0123456789")
    assert blobs.get_range("a/short", 2, 3) == b"234"
    assert blobs.get_range("a/short", 8, 100) == b"89"
    assert blobs.get_range("a/short", 10, 5) == b""
    assert blobs.get_range("a/short", 5_000_000, 5) == b""


def a_list_comes_in_pages(blobs: Blobs) -> None:
    """Pages of a list have every name below a prefix, once, in order."""
    names = [f"pool/s{number:02}/{part:04x}" for number in range(5) for part in range(5)]
    for name in reversed(names):
        blobs.put(name, b"x" * 3)
    for other in ("poolside/s00/0000", "pool-2/s00/0000", "p/s00", "zebra/s00"):
        blobs.put(other, b"other")
    assert len(names) == _MANY
    first = blobs.list("pool/", limit=10)
    second = blobs.list("pool/", after=first[-1].key, limit=10)
    third = blobs.list("pool/", after=second[-1].key, limit=10)
    assert [one.key for one in (*first, *second, *third)] == names
    assert blobs.list("pool/", after=third[-1].key, limit=10) == []
    assert [one.key for one in list_all(blobs, "pool/s03/")] == names[15:20]
    assert {one.size_bytes for one in first} == {3}
    assert [one.key for one in list_all(blobs)] == sorted(
        [*names, "poolside/s00/0000", "pool-2/s00/0000", "p/s00", "zebra/s00"]
    )
    assert blobs.list("nothing/") == []


def what_is_deleted_is_gone(blobs: Blobs) -> None:
    """A deleted blob is gone; deleting a missing one is no error, and the name can be used again."""
    for name in ("a/1", "a/2", "a/3"):
        blobs.put(name, name.encode())
    blobs.delete(["a/1", "a/3", "a/never"])
    blobs.delete(["a/1"])
    blobs.delete([])
    assert blobs.get("a/1") is None and blobs.stat("a/3") is None
    assert [one.key for one in list_all(blobs, "a/")] == ["a/2"]
    assert blobs.put("a/1", b"again") is True
    assert blobs.get("a/1") == b"again"


def ages_are_reported(blobs: Blobs) -> None:
    """Ages come from one clock: a blob that was put later is not older."""
    blobs.put("a/1", b"1")
    blobs.put("a/2", b"2")
    first, second = blobs.stat("a/1"), blobs.stat("a/2")
    assert first is not None and second is not None
    assert 1_500_000_000 < first.written_at <= second.written_at
    assert {one.key: one.written_at for one in blobs.list("a/")} == {"a/1": first.written_at, "a/2": second.written_at}


def a_name_that_is_none_is_refused(blobs: Blobs) -> None:
    """An invalid name is refused before anything is touched; no name escapes the prefix."""
    for key in ("", "/a", "a/", "a//b", "../a", "a/../b", ".a", "a b", "a\n", "a/" * 20 + "a", "ä"):
        for attempt in (lambda key=key: blobs.put(key, b""), lambda key=key: blobs.get(key)):
            try:
                attempt()
            except ValueError:
                continue
            raise AssertionError(f"the name {key!r} was taken")


def it_names_its_location(blobs: Blobs) -> None:
    """The location has no credentials, so that it can be shown."""
    assert blobs.location and blobs.address
    assert isinstance(blobs.is_own, bool)


CHECKS: Final[tuple[Check, ...]] = (
    what_is_put_is_read_back,
    a_name_is_written_once,
    of_two_writers_one_wins,
    a_large_one_is_whole,
    a_range_ends_where_the_blob_does,
    a_list_comes_in_pages,
    what_is_deleted_is_gone,
    ages_are_reported,
    a_name_that_is_none_is_refused,
    it_names_its_location,
)


def run(make_blobs: Callable[[], Blobs]) -> Report:
    """Run every check; a failure ends its check, not the run."""
    return report_of(CHECKS, lambda check: check(make_blobs()))


class BlobKit(ABC):
    """For pytest: a subclass whose name begins with `Test` has one test for every check."""

    @abstractmethod
    def make_blobs(self) -> Blobs:
        """A new, empty blob store."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        add_tests(cls, CHECKS, lambda self, check: check(self.make_blobs()))
