"""A connection to object storage that is cut in the middle of an upload: whole or absent, whatever was answered."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from relight.blobs import s3 as s3_module
from relight.blobs.s3 import S3Blobs
from relight.errors import StoreUnavailable
from tests.support.machines import Fleet, noise
from tests.support.object_storage import ObjectStorage

_SECONDS = 60.0


class Cutting:
    """Before the server, on a port of its own: drops the next uploads, before the server has them or after."""

    def __init__(self, endpoint: str) -> None:
        self._server = (urlsplit(endpoint).hostname or "", urlsplit(endpoint).port or 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.where, self.left, self.cuts = "after", 0, 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """One request a connection is enough to know; the client opens another."""
        with client, contextlib.suppress(OSError), socket.create_connection(self._server) as server:
            for one in (client, server):
                one.settimeout(_SECONDS)
            request = _message(client)
            cut = self.left > 0 and request.startswith(b"PUT ")
            if cut:
                self.left, self.cuts = self.left - 1, self.cuts + 1
            if cut and self.where == "before":
                return
            server.sendall(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
            answer = _all(server)
            if not cut:
                client.sendall(answer)


def _message(sender: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data and (more := sender.recv(1 << 20)):
        data += more
    head, _, _ = data.partition(b"\r\n\r\n")
    size = next(
        (int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")), 0
    )
    while len(data) < len(head) + 4 + size and (more := sender.recv(1 << 20)):
        data += more
    return data


def _all(sender: socket.socket) -> bytes:
    data = b""
    while more := sender.recv(1 << 20):
        data += more
    return data


@pytest.fixture
def cutting(s3: ObjectStorage) -> Iterator[Cutting]:
    one = Cutting(s3.endpoint)
    yield one
    one.close()


def far(cutting: Cutting, s3: ObjectStorage, path: Path) -> Fleet:
    return Fleet(path, S3Blobs(s3.bucket(), {**s3.environment, "RELIGHT_S3_ENDPOINT": cutting.endpoint}))


@pytest.mark.guarantee("G4")
@pytest.mark.parametrize("where", ["before", "after"])
def test_an_answer_that_is_lost_once_is_found_out(
    cutting: Cutting, s3: ObjectStorage, tmp_path: Path, where: str
) -> None:
    fleet = far(cutting, s3, tmp_path)
    here = fleet.machine("here")
    with here.open() as workspace:
        here.write("a", noise(2000))
        cutting.where, cutting.left = where, 1
        snapshot = workspace.snapshot()
    assert cutting.cuts == 1, "the point was never visited"
    with fleet.machine("there").open() as workspace:
        assert workspace.read(snapshot.id, b"a") == (here.root / "a").read_bytes()
    assert len(fleet.names()) == 1, "one upload has become two"


@pytest.mark.guarantee("G3")
@pytest.mark.parametrize("where", ["before", "after"])
def test_an_upload_that_fails_is_told_and_the_next_snapshot_is_whole(
    cutting: Cutting, s3: ObjectStorage, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_module, "RETRIES", 0)
    fleet = far(cutting, s3, tmp_path)
    here = fleet.machine("here")
    with here.open() as workspace:
        here.write("a", noise(2000))
        first = workspace.snapshot().id
        here.write("a", noise(3000))
        cutting.where, cutting.left = where, 2
        with pytest.raises(StoreUnavailable) as reported:
            workspace.snapshot()
        assert reported.value.hints and reported.value.evidence
        second = workspace.snapshot()
        assert set(second.segments) <= workspace.pool.registered
    with fleet.machine("there").open() as workspace:
        assert workspace.read(second.id, b"a") == (here.root / "a").read_bytes()
        assert workspace.verify(first) == ()
        workspace.sweep(lambda: [second.id], thorough=True)
        assert workspace.verify(second.id) == ()
    assert len(fleet.names()) == 1, "what arrived without being named is left for ever"
