"""What a start is asked to be, and a session that does not exist yet: what it will be, and which files it is to have.

Such a session is made by the first step that is committed to it, in one transaction (sessions/pending_store.py).
"""

from __future__ import annotations

from typing import Final

import msgspec

from relight.values.policy import NO_ALLOWANCE, Allowance
from relight.values.session import Head, Identity


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A session to begin."""

    identity: Identity
    head: Head
    """the checkpoint it stands on, with nothing of its own; all zero for a first run"""
    asked: str | None = None
    """the checkpoint that was asked for, `ID@SEQ`; None for a first run"""
    files: dict[str, str] = {}
    """root name to the snapshot that is put into the session's own, new directory"""
    in_place: bool = False
    """the files go back to the checkpoint where the session works that it comes from"""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """How a session is to go on, as every door asks for it."""

    prompt: str | None = None
    restore: bool = False
    """make a missing workspace anew, put back what one lacks"""
    from_last_good: bool = False
    without_secrets: bool = False
    workspace: str | dict[str, str] | None = None
    """below the head: the new session's own directory, instead of the one beside the original"""
    in_place: bool = False
    """below the head: put the original directory back and work there"""
    name: str | None = None
    """below the head: of the new session"""
    limits: Allowance = NO_ALLOWANCE
    """in the place of those it had"""


AS_IT_IS: Final = Wanted()
"""nothing said"""
