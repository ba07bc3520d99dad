"""S3 for tests: moto's server on the loopback, in this process, with a bucket for whoever asks."""

from __future__ import annotations

import logging
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from moto.server import ThreadedMotoServer

from relight.blobs.s3 import S3Blobs

KEYS = {"AWS_ACCESS_KEY_ID": "fake-key", "AWS_SECRET_ACCESS_KEY": "fake-secret", "AWS_REGION": "us-east-1"}
_NAMES = count(1)
"""of buckets, once in a process: moto keeps them in globals, so two servers of one process have the same ones"""


class ObjectStorage:
    """One server."""

    def __init__(self) -> None:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else it writes a line for every request
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        _, port = self._server.get_host_and_port()
        self.endpoint = f"http://127.0.0.1:{port}"

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to reach it."""
        return {**KEYS, "RELIGHT_S3_ENDPOINT": self.endpoint}

    def bucket(self) -> str:
        """The address of a new, empty bucket."""
        name = f"bucket-{next(_NAMES)}"
        with urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")):
            pass
        return f"s3://{name}/some/prefix"

    def blobs(self, address: str | None = None) -> S3Blobs:
        return S3Blobs(address or self.bucket(), self.environment)

    def stop(self) -> None:
        self._server.stop()


@contextmanager
def running() -> Iterator[ObjectStorage]:
    """A server for a while."""
    server = ObjectStorage()
    try:
        yield server
    finally:
        server.stop()
