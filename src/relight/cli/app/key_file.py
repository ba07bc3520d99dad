"""Key files for signing bundles: any bytes, the same on both machines."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from relight.errors import NotFound, UsageError

_MAX_BYTES: Final = 64 * 1024


def read_key(path: Path) -> bytes:
    """Read a key file; NotFound or UsageError if it cannot be one."""
    try:
        with path.open("rb") as file:
            # One byte more than allowed tells a file that is too large; /dev/zero is not read to its end.
            key = file.read(_MAX_BYTES + 1)
    except OSError as error:
        evidence = [str(error), f"make one: head -c 32 /dev/urandom > {path}"]
        raise NotFound(str(path), what="key file", evidence=evidence) from None
    if len(key) > _MAX_BYTES:
        raise UsageError(f"{path}: over {_MAX_BYTES:,} bytes: not a key file")
    return key
