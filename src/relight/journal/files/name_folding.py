"""Names that a file system may take for one: they differ only in case, in Unicode form, or in characters it ignores.

macOS folds case and normalises Unicode, vfat folds case and drops trailing dots. The key here folds more than any of
them, so that no pair is overlooked; whether two names of one key really are one name is asked of the file system.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from relight.values.snapshot import Action


def fold_key(path: bytes) -> str:
    """Equal for all paths that some file system might take for the same."""
    if path.isascii():
        text = path.decode("ascii").lower()
    else:
        text = unicodedata.normalize("NFKD", path.decode("utf-8", "surrogateescape")).casefold()
        text = unicodedata.normalize("NFKD", "".join(one for one in text if unicodedata.category(one) != "Cf"))
    if text.endswith((".", " ")) or "./" in text or " /" in text:
        return "/".join(part.rstrip(". ") or part for part in text.split("/"))
    return text


def pairs_alike(new: Iterable[bytes], there: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    """Each new name of a directory with another one, new or there already, that it might be one with."""
    known: dict[str, bytes] = {}
    for name in there:
        known.setdefault(fold_key(name), name)
    found = []
    for name in sorted(new):
        other = known.setdefault(fold_key(name), name)
        if other != name:
            found.append((other, name))
    return found


def deletes_alike(writes: Iterable[Action], deletes: Iterable[Action]) -> list[tuple[Action, bytes]]:
    """Deletes of a plan, each with a path to be written that it might be one with; in the order of the deletes."""
    new = {fold_key(one.path): one.path for one in writes if one.found is None}
    if not new:
        return []
    return [(one, new[key]) for one in deletes if (key := fold_key(one.path)) in new]
