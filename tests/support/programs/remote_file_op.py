"""As `file_op`, with a blob store off the machine."""

from __future__ import annotations

import os

from relight.blobs import directory
from relight.workspaces import home
from relight.workspaces.changes import native
from tests.support.programs import file_op

LOADED = (directory, home, native.load())  # so that a fork of the fork server need not import them


def main(store: str, tree: str, verb: str, blobs: str) -> None:
    """Do one thing and end."""
    os.environ["RELIGHT_BLOBS"] = blobs
    file_op.main(store, tree, verb)
