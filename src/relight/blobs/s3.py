"""Blobs in S3-compatible object storage, through obstore. Implements `ports.blobs.Blobs`.

A blob is put with If-None-Match, in one request; one over MULTIPART_BYTES is uploaded in parts, after checking that the
key is free. Requests are retried with backoff, within RETRY_SECONDS. If a first attempt succeeded and only its reply
was lost, the retry reports that the key exists: a caller that puts a key once has to compare.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from relight.errors import StoreError, StoreUnavailable, UsageError
from relight.ports.blobs import MAX_PAGE, Blob, checked_key, checked_prefix

MULTIPART_BYTES: Final = 64 * 1024 * 1024
PIECE_BYTES: Final = 16 * 1024 * 1024
MAX_DELETE: Final = 1000
RETRIES: Final = 8
RETRY_SECONDS: Final = 30
REQUEST_SECONDS: Final = 180
CONNECT_SECONDS: Final = 5
_EXAMPLE: Final = "RELIGHT_BLOBS=s3://bucket/prefix"
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_ENDPOINT: Final = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?(?:/[!-~]*)?")
_ENDPOINT_EXAMPLE: Final = "RELIGHT_S3_ENDPOINT=https://minio.example:9000"
_HINTS: Final = (
    ("NoSuchBucket", "create the bucket first, or check its name in RELIGHT_BLOBS"),
    ("InvalidAccessKeyId", "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    ("SignatureDoesNotMatch", "check AWS_SECRET_ACCESS_KEY and AWS_REGION"),
    ("ExpiredToken", "renew the credentials: AWS_SESSION_TOKEN has expired"),
    ("AccessDenied", "let this key read, write, list and delete below the prefix of RELIGHT_BLOBS"),
    ("PermanentRedirect", "set AWS_REGION to the bucket's region"),
    ("error sending request", "start it, or check RELIGHT_S3_ENDPOINT and the network between here and there"),
    ("credential", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
)


class S3Blobs:
    """Blobs under one prefix of a bucket."""

    is_own = False

    def __init__(self, address: str, environment: Mapping[str, str]) -> None:
        """`address` is s3://bucket/prefix; endpoint, region and keys come from the environment."""
        bucket, prefix = _bucket_and_prefix(address)
        self.location = self.address = f"s3://{bucket}/{prefix}" if prefix else f"s3://{bucket}"
        self._process = os.getpid()
        config, endpoint = _config(environment)
        try:
            self._store = S3Store(
                bucket,
                prefix=prefix or None,
                config=config,
                client_options={
                    "allow_http": endpoint.startswith("http://"),
                    "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
                    "timeout": timedelta(seconds=REQUEST_SECONDS),
                },
                retry_config={
                    "max_retries": RETRIES,
                    "retry_timeout": timedelta(seconds=RETRY_SECONDS),
                    "backoff": {
                        "init_backoff": timedelta(milliseconds=100),
                        "max_backoff": timedelta(seconds=5),
                        "base": 2,
                    },
                },
            )
        except (BaseError, ValueError) as error:
            raise UsageError(f"{self.location}: {_sentence(error)}", hints=[_EXAMPLE]) from None

    def put(self, key: str, data: bytes) -> bool:
        with self._translate_errors():
            if len(data) > MULTIPART_BYTES:
                return self._put_in_pieces(checked_key(key), data)
            try:
                self._put_whole(checked_key(key), data)
            except AlreadyExistsError:
                return False
            return True

    def _put_whole(self, key: str, data: bytes) -> None:
        try:
            obstore.put(self._store, key, data, mode="create", use_multipart=False)
        except BaseError as error:
            if not _was_cut(error):
                raise
            obstore.put(self._store, key, data, mode="create", use_multipart=False)

    def _put_in_pieces(self, key: str, data: bytes) -> bool:
        if self._stat(key) is not None:
            return False
        obstore.put(self._store, key, data, use_multipart=True, chunk_size=PIECE_BYTES, max_concurrency=4)
        return True

    def get(self, key: str) -> bytes | None:
        with self._translate_errors():
            try:
                return bytes(obstore.get(self._store, checked_key(key)).bytes())
            except FileNotFoundError as error:
                _unless_absent(error)
                return None

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        with self._translate_errors():
            try:
                return bytes(obstore.get_range(self._store, checked_key(key), start=start, length=length))
            except FileNotFoundError as error:
                _unless_absent(error)
                return None
            except BaseError as error:
                if "InvalidRange" not in str(error) and "416" not in str(error):
                    raise
                return b""  # the blob ends before the range

    def stat(self, key: str) -> Blob | None:
        with self._translate_errors():
            return self._stat(checked_key(key))

    def _stat(self, key: str) -> Blob | None:
        try:
            return _blob(obstore.head(self._store, key))
        except FileNotFoundError as error:
            _unless_absent(error)
            return None

    def list(self, prefix: str = "", *, after: str = "", limit: int = MAX_PAGE) -> list[Blob]:
        below = checked_prefix(prefix).rstrip("/") or None
        with self._translate_errors():
            found: list[Blob] = []
            for page in obstore.list(self._store, below, offset=after or None, chunk_size=limit):
                found += map(_blob, page)
                if len(found) >= limit:
                    break
            return sorted(found)[:limit]

    def delete(self, keys: Iterable[str]) -> None:
        doomed = [checked_key(key) for key in keys]
        with self._translate_errors():
            for at in range(0, len(doomed), MAX_DELETE):
                obstore.delete(self._store, doomed[at : at + MAX_DELETE])

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        if os.getpid() != self._process:
            raise StoreUnavailable(
                f"{self.location}: object storage cannot be used in a forked child of the process that opened it",
                hints=["open relight in the child, or start it with spawn instead of fork"],
            )
        try:
            yield
        except (BaseError, OSError) as error:
            raise self._store_error(error) from None

    def _store_error(self, error: Exception) -> StoreError:
        message = str(error)
        refused = isinstance(error, PermissionDeniedError | UnauthenticatedError | PermissionError)
        other = "check keys and rights: relight doctor" if refused else "check that it is up: relight doctor"
        hint = next((hint for words, hint in _HINTS if words in message), other)
        what = "object storage refused it" if refused else "object storage could not be used"
        return StoreUnavailable(f"{self.location}: {what}", evidence=[f"s3: {_sentence(error)}"], hints=[hint])


def _bucket_and_prefix(address: str) -> tuple[str, str]:
    """Bucket and prefix of an address, validated here: obstore panics on names that cannot be part of a request."""
    try:
        parts = urlsplit(address)
    except ValueError:
        parts = urlsplit("")
    is_one = parts.scheme == "s3" and _BUCKET.fullmatch(parts.netloc) and not parts.query and not parts.fragment
    if not is_one or not address.isprintable():
        raise UsageError("not an address of object storage", hints=[_EXAMPLE])
    return parts.netloc, parts.path.strip("/")


def _checked_endpoint(endpoint: str) -> str:
    matched = _ENDPOINT.fullmatch(endpoint)
    if endpoint and (matched is None or int(matched[1] or 0) > 65_535):
        raise UsageError(
            "not an endpoint of object storage: it begins with http:// or https:// and has no user or key in it",
            hints=[_ENDPOINT_EXAMPLE],
        )
    return endpoint


def _value(environment: Mapping[str, str], name: str) -> str:
    """An environment variable, stripped. Its value is never shown in an error."""
    value = environment.get(name, "").strip()
    if not value.isascii() or not value.isprintable():
        raise UsageError(f"{name} contains characters that are not valid in a key", hints=[f"set {name} again"])
    return value


def _config(environment: Mapping[str, str]) -> tuple[Any, str]:
    """The configuration for obstore, and the endpoint. Other AWS variables, such as a container's role, it reads
    itself."""
    endpoint = (
        environment.get("RELIGHT_S3_ENDPOINT")
        or environment.get("AWS_ENDPOINT_URL_S3")
        or environment.get("AWS_ENDPOINT_URL")
        or ""
    ).strip()
    endpoint = _checked_endpoint(endpoint)

    variable = partial(_value, environment)
    given = {
        "access_key_id": variable("AWS_ACCESS_KEY_ID"),
        "secret_access_key": variable("AWS_SECRET_ACCESS_KEY"),
        "session_token": variable("AWS_SESSION_TOKEN"),
        "endpoint": endpoint,
        "region": variable("AWS_REGION") or variable("AWS_DEFAULT_REGION") or "us-east-1",
    }
    hosted = environment.get("RELIGHT_S3_STYLE", "path") == "virtual"
    config: dict[str, Any] = {name: value for name, value in given.items() if value}
    return {**config, "virtual_hosted_style_request": hosted}, endpoint


def _blob(meta: Any) -> Blob:
    return Blob(meta["path"], meta["size"], meta["last_modified"].timestamp())


def _unless_absent(error: FileNotFoundError) -> None:
    """Raise for a missing bucket; a missing blob is no error."""
    if "NoSuchBucket" in str(error):
        raise error


def _was_cut(error: BaseError) -> bool:
    """True if the connection was cut during a write. obstore does not retry those, since their outcome is unknown; with
    If-None-Match it is safe."""
    return "HTTP error" in str(error) and "max_retries" not in _sentence(error)


def _sentence(error: Exception) -> str:
    """The message, without obstore's debug output."""
    first = str(error).split("\n\nDebug source", maxsplit=1)[0]
    return " ".join(first.split())[:300]
