"""File names that contain a secret: they are listed under a placeholder, and never captured.

A name appears in directory objects, in the cached state and in every list of changes, so it is replaced where it is
first read: in the block of a scan. The placeholder is no file's name, and is left out with the reason "secret"
(`changes.ignore`). Nearly no directory has such a name, and one search over its bytes shows that.
"""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Final

from relight.journal.redaction.redactor import Redactor
from relight.journal.redaction.secrets.spans import OPENING
from relight.system.environment_secrets import redactor
from relight.workspaces.changes.scan import build, parse

MARK: Final = OPENING.encode()


@cache
def _signs() -> re.Pattern[bytes]:
    """A pattern that every name with a secret matches."""
    known: Redactor = redactor()
    return re.compile(b"|".join(re.escape(os.fsencode(sign)) for sign in sorted(known.signs)))


def is_hidden(name: bytes) -> bool:
    """True if the name certainly contains a secret."""
    return _signs().search(name) is not None and redactor().secret_in(os.fsdecode(name)) is not None


def without_secrets(block: bytes) -> bytes:
    """The block of a directory with such names replaced; the same object if there are none."""
    if _signs().search(block) is None:
        return block
    stats = parse(block)
    hidden = [name for name in stats if is_hidden(name)]
    if not hidden:
        return block
    for number, name in enumerate(sorted(hidden), start=1):
        stats[MARK + b"file name %d]" % number] = stats.pop(name)
    return build(stats)
