"""What the six nouns of `Relight` share: the ports they work with, and how a reference becomes a session."""

from __future__ import annotations

from typing import Final

from relight.errors import NotFound, UsageError
from relight.history import listing
from relight.history.loading import Found, resolve
from relight.sessions.context import Context
from relight.values.info import SessionInfo

ID_CHARS: Final = 32
"""of a full id: only by that is a removed session known"""


class Noun:
    """One subject of an open store, with its verbs. Made once for a handle, by `Relight`."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __repr__(self) -> str:
        return f"<relight {type(self).__name__.lower()} of {self._context.store.info.location}>"

    def _found(self, ref: str) -> Found:
        """The session, or the checkpoint, that a reference names. NotFound, also saying when a session was removed that
        is named by its full id; Ambiguous."""
        try:
            return resolve(self._context.store, ref)
        except NotFound as error:
            from relight.operations import retention  # here: few commands get there

            session = str(ref).partition("@")[0]
            removed = retention.tombstone_of(self._context, session) if len(session) == ID_CHARS else None
            if removed is not None and self._context.store.find(session) is None:  # else a checkpoint was not found
                error.evidence += (retention.removal_text(removed),)
            raise

    def _whole(self, ref: str, done: str) -> Found:
        """The session that a reference names, for what is `done` to all of it. UsageError for a checkpoint, which
        asks for less."""
        found = self._found(ref)
        if found.seq is not None:
            raise UsageError(
                f"{ref} is a checkpoint, and only a whole session is {done}; nothing was changed",
                hints=[f"the session is {found.identity.name or found.identity.id}"],
            )
        return found

    def _info(self, ref: str) -> SessionInfo:
        return listing.info_of(self._context, self._found(ref), tree=True)
