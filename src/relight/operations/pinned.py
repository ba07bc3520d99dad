"""A session as somebody was shown it: what is done about it is done on that state, or not at all.

A store with one session pinned. Until something is written, every look at the session has to find it as it was shown;
the first write carries the pinned epoch and seq into its claim, so that they are compared inside its own transaction.
After that the change has begun, and what follows is its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from relight.errors import Conflict, PlanMoved, StoreUnavailable
from relight.history.loading import Found
from relight.journal.resume_plan import plan_hash
from relight.ports.store import Record, Store
from relight.sessions.context import Context
from relight.values.session import Head
from relight.values.step import Committed, Draft


def as_shown(context: Context, found: Found, plan: str) -> Context:
    """The same seams, for a session that was shown under this hash of its plan. PlanMoved where it is another."""
    return msgspec.structs.replace(context, store=cast(Store, PinnedStore(context.store, found, plan)))


class PinnedStore:
    """Passes everything on, but for one session."""

    def __init__(self, store: Store, found: Found, plan: str) -> None:
        self._store, self._found, self._plan = store, found, plan
        self._begun = False
        self._same(Record(identity=found.identity, head=found.head))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def find(self, session: str) -> Record | None:
        """As the store does; PlanMoved where it is not as shown."""
        return self._same(self._store.find(session))

    def find_named(self, name: str) -> Record | None:
        """As `find`."""
        return self._same(self._store.find_named(name))

    def find_prefixed(self, prefix: str, limit: int) -> list[Record]:
        """As `find`."""
        found = self._store.find_prefixed(prefix, limit)
        for record in found:
            self._same(record)
        return found

    def commit(self, session: str, draft: Draft) -> Committed:
        """One durable step; the first one on the session as it was shown, or PlanMoved."""
        head = self._found.head
        if self._begun or head is None or session != head.session or draft.claim is None:
            return self._store.commit(session, draft)
        claim = msgspec.structs.replace(draft.claim, expected_epoch=head.epoch, expected_seq=head.seq)
        try:
            committed = self._store.commit(session, msgspec.structs.replace(draft, claim=claim))
        except Conflict:
            self._same(self._store.find(session))  # else it is about something else
            raise
        except StoreUnavailable:
            self._begun = True  # perhaps; the recorder asks by its own key, and must not be told that it moved
            raise
        self._begun = True
        return committed

    def delete(self, sessions: Sequence[str], *, epochs: Mapping[str, int] | None = None) -> None:
        """Remove sessions; who would write to this one has to claim it first, which is another epoch."""
        try:
            self._store.delete(sessions, epochs=epochs)
        except Conflict:
            self._same(self._store.find(self._found.identity.id))
            raise
        self._begun = True

    def rebuild_head(self, head: Head, *, instead_of: bytes | None = None) -> None:
        """Replace a damaged head, which the store compares itself."""
        self._store.rebuild_head(head, instead_of=instead_of)
        self._begun = True

    def _same(self, record: Record | None) -> Record | None:
        if self._begun or record is None or record.identity.id != self._found.identity.id:
            return record
        now = plan_hash(record.head, self._found.seq) if record.head is not None else ""
        if now != self._plan:
            title = record.identity.name or record.identity.id[:8]
            raise PlanMoved(title, shown=self._plan[:32], now=now)
        return record
