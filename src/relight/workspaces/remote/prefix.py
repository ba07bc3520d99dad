"""The prefix of a store's blob keys, and the blob storage that it is used in.

Several stores may use one bucket, and their pools may have equal keys, because a pool's key is made from a path. So
blob keys begin with a prefix that is unique to the store, stored among its segment rows under a reserved pool name. If
two processes create it at once there are two prefixes, and content is searched under both. The address of the storage
is recorded in the same way, so that a machine with another RELIGHT_BLOBS gets an error instead of finding no content.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from relight.errors import StoreUnavailable, UsageError
from relight.ports.blobs import Blob, Blobs, list_all
from relight.ports.workspace import SegmentIndex
from relight.workspaces.remote.cache import PartCache

PREFIXES: Final = "@words"
ADDRESSES: Final = "@addresses"
NO_POOL: Final = "@"
"""first character of reserved pool names"""
_PROBE: Final = "@probe"
_ABANDONED_SECONDS: Final = 3600.0


class RemotePrefix:
    """The remote content of one store."""

    def __init__(self, blobs: Blobs, rows: SegmentIndex, cache: PartCache) -> None:
        self.blobs, self.cache, self._rows = blobs, cache, rows

    @property
    def location(self) -> str:
        return self.blobs.location

    @property
    def paths(self) -> tuple[Path, ...]:
        """The directory of a file:// blob store: no workspace may contain it or be inside it."""
        scheme, _, path = self.blobs.address.partition("://")
        return (Path(unquote(path)),) if scheme == "file" else ()

    def prefixes(self) -> tuple[str, ...]:
        """All prefixes of this store's blob keys."""
        if self.blobs.is_own:
            return ("",)
        return tuple(f"{prefix}/" for prefix in sorted(self._rows.list_segments(PREFIXES)))

    def own_prefix(self) -> str:
        """The prefix for new blobs, created on first use."""
        address = quote(self.blobs.address, safe="")
        if address not in self._rows.list_segments(ADDRESSES):
            self._rows.add_segment(ADDRESSES, address)
        found = self.prefixes()
        if not found:
            self._rows.add_segment(PREFIXES, f"s{secrets.token_hex(8)}")
            found = self.prefixes()
        return found[0]

    def check_address(self) -> None:
        """UsageError if content of this store was written to another address, and none is here."""
        known = addresses(self._rows)
        if not known or self.blobs.address in known:
            return
        prefixes = self.prefixes()
        if any(self.blobs.list(prefix, limit=1) for prefix in prefixes):
            return  # the content was copied to this address
        raise UsageError(
            f"the captured files of this store are in {known[0]}, and none of them in {self.location}",
            hints=[
                f"export RELIGHT_BLOBS={known[0]}",
                f"or copy them here first; if they are lost for good, put any object at {prefixes[0]}@moved/here"
                " below the new address, to continue without them",
            ],
        )

    def listed(self, below: str = "") -> list[tuple[str, Blob]]:
        """All blobs under a key: (store prefix, blob)."""
        return [(prefix, blob) for prefix in self.prefixes() for blob in list_all(self.blobs, f"{prefix}{below}")]

    def pools(self) -> frozenset[str]:
        """The pools that have any blob, registered or not."""
        found = (blob.key.removeprefix(prefix) for prefix, blob in self.listed())
        return frozenset(key.partition("/")[0] for key in found if not key.startswith(_PROBE))

    def probe(self) -> None:
        """Write, read, list, delete: StoreUnavailable if one does not work, or if the content is at another address."""
        key, data = f"{_PROBE}/{secrets.token_hex(8)}", secrets.token_bytes(64)
        blobs = self.blobs
        try:
            works = {
                "what was written could not be written": blobs.put(key, data),
                "what was written is read otherwise": blobs.get(key) == data,
                "what was written is not listed": key in _probes(blobs),
                "a name that is taken was written again; it must keep the condition If-None-Match": not blobs.put(
                    key, data
                ),
            }
        finally:
            blobs.delete([key])
        works["what was deleted is still there"] = blobs.stat(key) is None
        for problem, is_fine in works.items():
            if not is_fine:
                raise StoreUnavailable(
                    f"{blobs.location}: {problem}", hints=["use a blob store that keeps its promises: RELIGHT_BLOBS"]
                )
        known = addresses(self._rows)
        if known and blobs.address not in known:
            raise StoreUnavailable(
                f"{blobs.location}: works, but the captured files of this store are in {known[0]}",
                hints=[f"export RELIGHT_BLOBS={known[0]}, or copy them over"],
            )


def _probes(blobs: Blobs) -> set[str]:
    """The existing probe objects; abandoned ones are deleted."""
    found = list(list_all(blobs, f"{_PROBE}/"))
    newest = max((blob.written_at for blob in found), default=0.0)
    blobs.delete([blob.key for blob in found if blob.written_at < newest - _ABANDONED_SECONDS])
    return {blob.key for blob in found}


def addresses(rows: SegmentIndex) -> list[str]:
    """All addresses that content of this store was written to."""
    return sorted(map(unquote, rows.list_segments(ADDRESSES)))


def check_location(rows: SegmentIndex) -> None:
    """UsageError if content of this store is in a blob store, and none is configured."""
    found = addresses(rows)
    if found:
        raise UsageError(
            f"the captured files of this store are in {found[0]}, and RELIGHT_BLOBS is not set",
            hints=[f"export RELIGHT_BLOBS={found[0]}", "or start over on this machine: RELIGHT_BLOBS=DIRECTORY"],
        )
