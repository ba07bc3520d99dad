"""What the six nouns of `Relight` share: the ports they work with, and how a reference becomes a session."""

from __future__ import annotations

from relight.history import listing
from relight.history.loading import Found, resolve
from relight.sessions.context import Context
from relight.values.info import SessionInfo


class Noun:
    """One subject of an open store, with its verbs. Made once for a handle, by `Relight`."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __repr__(self) -> str:
        return f"<relight {type(self).__name__.lower()} of {self._context.store.info.location}>"

    def _found(self, ref: str) -> Found:
        """The session, or the checkpoint, that a reference names. NotFound, Ambiguous."""
        return resolve(self._context.store, ref)

    def _info(self, ref: str) -> SessionInfo:
        return listing.info_of(self._context, self._found(ref), tree=True)
