"""A directory, PostgreSQL and object storage keep every promise of the blob port."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from relight.blobs import s3 as s3_module
from relight.blobs.directory import DirectoryBlobs
from relight.blobs.postgres import PIECE_BYTES, PostgresBlobs
from relight.errors import Corrupt, StoreUnavailable
from relight.ports.blobs import Blob, Blobs
from relight.stores.postgres.store import PostgresStore
from relight.testing import blob_kit
from relight.testing.blob_kit import BlobKit
from relight.testing.clock import ManualClock
from tests.support.object_storage import ObjectStorage
from tests.support.postgres_server import Server, name_of


class TestDirectory(BlobKit):
    path: Path

    @pytest.fixture(autouse=True)
    def _a_directory(self, tmp_path: Path) -> None:
        self.path = tmp_path / "not" / "there yet"

    def make_blobs(self) -> Blobs:
        return DirectoryBlobs(self.path)


class TestPostgres(BlobKit):
    store: PostgresStore

    @pytest.fixture(autouse=True)
    def _a_store(self, postgres: Server) -> Iterator[None]:
        self.store = PostgresStore(postgres.emptied(), ManualClock())
        yield
        self.store.close()

    def make_blobs(self) -> Blobs:
        return PostgresBlobs(self.store.connections)


class TestS3(BlobKit):
    server: ObjectStorage

    @pytest.fixture(autouse=True)
    def _a_server(self, s3: ObjectStorage) -> None:
        self.server = s3

    def make_blobs(self) -> Blobs:
        return self.server.blobs()


def test_what_is_too_large_for_one_request_goes_up_in_pieces(
    s3: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_module, "MULTIPART_BYTES", 6 * 1024 * 1024)
    monkeypatch.setattr(s3_module, "PIECE_BYTES", 5 * 1024 * 1024)
    blob_kit.a_large_one_is_whole(s3.blobs())


class Forgetful:
    """Overwrites what it has, forgets everything when it is to forget one thing, and does not know its own clock."""

    location, address, is_own = "nowhere", "nowhere:", False

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def put(self, key: str, data: bytes) -> bool:
        self._kept[key] = data
        return True

    def get(self, key: str) -> bytes | None:
        return self._kept.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        data = self._kept.get(key)
        return data[start:length] if data is not None else None

    def stat(self, key: str) -> Blob | None:
        return Blob(key, len(self._kept[key]), 1.0) if key in self._kept else None

    def list(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[Blob]:
        return [Blob(key, len(data), 1.0) for key, data in self._kept.items() if key.startswith(prefix) and key > after]

    def delete(self, keys: object) -> None:
        self._kept.clear()


def test_the_kit_finds_a_blob_store_that_breaks_its_promises() -> None:
    report = blob_kit.run(Forgetful)
    kept = {"what_is_put_is_read_back", "it_names_its_location"}
    assert {one.check for one in report.broken} == {check.__name__ for check in blob_kit.CHECKS} - kept
    assert str(report).startswith(f"2 of {len(blob_kit.CHECKS)} promises kept")


def test_a_forked_child_is_told_instead_of_waiting_for_ever(s3: ObjectStorage) -> None:
    """The threads behind obstore are not there after a fork."""
    blobs = s3.blobs()
    assert blobs.put("a/1", b"of the parent")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            blobs.get("a/1")
            said = b"read"
        except StoreUnavailable as error:
            said = error.message.encode()
        os.write(write, said)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as reported:
        assert b"forked child" in reported.read()
    os.waitpid(child, 0)
    assert blobs.get("a/1") == b"of the parent"


def test_the_size_of_a_journal_does_not_count_blobs(postgres: Server) -> None:
    store = PostgresStore(postgres.emptied(), ManualClock())
    before = store.size_bytes()
    PostgresBlobs(store.connections).put("a/1", bytes(3_000_000))
    assert store.size_bytes() == before
    store.close()


def test_a_piece_that_is_missing_is_no_shorter_blob(postgres: Server) -> None:
    store = PostgresStore(postgres.emptied(), ManualClock())
    blobs = PostgresBlobs(store.connections)
    blobs.put("a/1", bytes(PIECE_BYTES * 3))
    postgres.execute("DELETE FROM relight.blobs WHERE piece = 1", database=name_of(store.url))
    for attempt in (lambda: blobs.get("a/1"), lambda: blobs.get_range("a/1", 10, PIECE_BYTES * 2)):
        with pytest.raises(Corrupt, match="missing"):
            attempt()
    store.close()
