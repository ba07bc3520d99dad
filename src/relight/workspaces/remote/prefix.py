"""Where a store's content lies off the machine: a blob store, and in it the names that are this store's alone.

Several stores may be given one bucket, and their pools may have the same key, because a pool's key is made from a path.
So names begin with a word that only one store knows, kept among its segment rows under a pool that is none. Where two
processes begin at once there are two such words, and both stay: content is looked for under all of them. The address is
kept in the same way, so that a machine that was not told where content lies is told so, instead of finding none.
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

WORDS: Final = "@words"
ADDRESSES: Final = "@addresses"
NO_POOL: Final = "@"
"""what the name of a pool that is none begins with"""
_PROBE: Final = "@probe"
_LEFT_SECONDS: Final = 3600.0


class RemotePrefix:
    """The content of one store, as far as it lies off the machine."""

    def __init__(self, blobs: Blobs, rows: SegmentIndex, cache: PartCache) -> None:
        self.blobs, self.cache, self._rows = blobs, cache, rows

    @property
    def place(self) -> str:
        return self.blobs.place

    @property
    def paths(self) -> tuple[Path, ...]:
        """The directory of a blob store that is one: no part of any workspace, and no workspace is a part of it."""
        scheme, _, path = self.blobs.address.partition("://")
        return (Path(unquote(path)),) if scheme == "file" else ()

    def words(self) -> tuple[str, ...]:
        """What the names of all content begin with."""
        if self.blobs.is_own:
            return ("",)
        return tuple(f"{word}/" for word in sorted(self._rows.list_segments(WORDS)))

    def own_word(self) -> str:
        """What the names of new content begin with; made for the first one who writes."""
        address = quote(self.blobs.address, safe="")
        if address not in self._rows.list_segments(ADDRESSES):
            self._rows.add_segment(ADDRESSES, address)
        found = self.words()
        if not found:
            self._rows.add_segment(WORDS, f"s{secrets.token_hex(8)}")
            found = self.words()
        return found[0]

    def check_here(self) -> None:
        """UsageError where content of this store lies at another address, and nothing of it here."""
        known = addresses(self._rows)
        if not known or self.blobs.address in known:
            return
        words = self.words()
        if any(self.blobs.list(word, limit=1) for word in words):
            return  # it was copied over
        raise UsageError(
            f"the captured files of this store lie in {known[0]}, and nothing of them in {self.place}",
            hints=[
                f"export RELIGHT_BLOBS={known[0]}",
                f"or copy them over first; where they are lost for good, put any object at {words[0]}@moved/here"
                " below the new address, and go on without them",
            ],
        )

    def listed(self, below: str = "") -> list[tuple[str, Blob]]:
        """Everything below a name: (the word before it, the blob)."""
        return [(word, blob) for word in self.words() for blob in list_all(self.blobs, f"{word}{below}")]

    def pools(self) -> frozenset[str]:
        """The pools that have anything here, with or without a row."""
        found = (blob.key.removeprefix(word) for word, blob in self.listed())
        return frozenset(key.partition("/")[0] for key in found if not key.startswith(_PROBE))

    def probe(self) -> None:
        """Write, read, find, delete: StoreUnavailable where one does not work, or where content lies elsewhere."""
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
                    f"{blobs.place}: {problem}", hints=["use a blob store that keeps its promises: RELIGHT_BLOBS"]
                )
        known = addresses(self._rows)
        if known and blobs.address not in known:
            raise StoreUnavailable(
                f"{blobs.place}: answers, but the captured files of this store lie in {known[0]}",
                hints=[f"export RELIGHT_BLOBS={known[0]}, or copy them over"],
            )


def _probes(blobs: Blobs) -> set[str]:
    """The probes that are there; those that a kill left behind long ago go."""
    found = list(list_all(blobs, f"{_PROBE}/"))
    newest = max((blob.written_at for blob in found), default=0.0)
    blobs.delete([blob.key for blob in found if blob.written_at < newest - _LEFT_SECONDS])
    return {blob.key for blob in found}


def addresses(rows: SegmentIndex) -> list[str]:
    """Where content of this store was ever put off the machine."""
    return sorted(map(unquote, rows.list_segments(ADDRESSES)))


def check_location(rows: SegmentIndex) -> None:
    """UsageError where content of this store lies off the machine, and nobody has said so here."""
    found = addresses(rows)
    if found:
        raise UsageError(
            f"the captured files of this store lie in {found[0]}, and RELIGHT_BLOBS is not set",
            hints=[f"export RELIGHT_BLOBS={found[0]}", "or, to begin anew on this machine: RELIGHT_BLOBS=DIRECTORY"],
        )
