"""The bytes of every file below a directory, while processes that write there may still be running or ending."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def files_below(directory: Path) -> Iterator[tuple[Path, bytes]]:
    """Each regular file with its bytes, in a fixed order.

    A file or directory that goes while it is read is left out: a store's log, for example, is removed by whoever
    closes it last. `Path.rglob` and `read_bytes` raise FileNotFoundError then.
    """
    for parent, directories, files in os.walk(directory):
        directories.sort()
        for name in sorted(files):
            path = Path(parent, name)
            try:
                if path.is_file():
                    yield path, path.read_bytes()
            except FileNotFoundError:
                continue
