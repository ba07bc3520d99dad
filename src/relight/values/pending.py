"""Options of a start (`Wanted`), and a session that does not exist yet (`Pending`).

A pending session is created by the first step committed to it, in one transaction (sessions/pending_store.py).
"""

from __future__ import annotations

from typing import Final

import msgspec

from relight.values.policy import NO_ALLOWANCE, Allowance
from relight.values.session import Head, Identity


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A session to be created, with the files it is to have."""

    identity: Identity
    head: Head
    """head at the checkpoint it starts from; all zero for a first run"""
    asked: str | None = None
    """the requested checkpoint, `ID@SEQ`; None for a first run"""
    files: dict[str, str] = {}
    """root name to the snapshot restored into the session's own new directory"""
    in_place: bool = False
    """the checkpoint's files are restored in the directory of the original session"""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """How a session is to continue, as requested from any entry point."""

    prompt: str | None = None
    restore: bool = False
    """create a missing workspace and restore missing files"""
    from_last_good: bool = False
    without_secrets: bool = False
    workspace: str | dict[str, str] | None = None
    """before the head: directory of the new session, instead of one beside the original"""
    in_place: bool = False
    """before the head: restore the original directory and work there"""
    name: str | None = None
    """before the head: name of the new session"""
    limits: Allowance = NO_ALLOWANCE
    """replace those it had"""


AS_IT_IS: Final = Wanted()
"""no options given"""
