"""Optimistic concurrency: a store view with one session pinned to the plan hash a user was shown.

Until something is written, every read of the session must find it as it was shown; the first write passes the pinned
epoch and seq in its claim, so that they are compared inside its own transaction. After that, further changes are the
caller's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from relight.errors import Conflict, PlanMoved, StoreUnavailable
from relight.history.loading import Found
from relight.journal.resume_plan import HASH_CHARS, naming_hash, plan_hash
from relight.ports.store import Record, Store
from relight.sessions.context import Context
from relight.values.session import Head, Identity
from relight.values.step import Committed, Draft


def pin(context: Context, found: Found, plan: str) -> Context:
    """The same context, for a session that was shown with this plan hash, which `naming_hash` may follow. PlanMoved if
    it has changed."""
    return msgspec.structs.replace(context, store=cast(Store, PinnedStore(context.store, found, plan)))


class PinnedStore:
    """Delegates to the store; reads and writes of the pinned session are checked."""

    def __init__(self, store: Store, found: Found, plan: str) -> None:
        self._store, self._found, self._plan, self._naming = store, found, plan[:HASH_CHARS], plan[HASH_CHARS:]
        self._begun = False
        self._same(Record(identity=found.identity, head=found.head))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def find(self, session: str) -> Record | None:
        """Like the store's; PlanMoved if the session is not as shown."""
        return self._same(self._store.find(session))

    def find_named(self, name: str) -> Record | None:
        return self._same(self._store.find_named(name))

    def find_prefixed(self, prefix: str, limit: int) -> list[Record]:
        found = self._store.find_prefixed(prefix, limit)
        for record in found:
            self._same(record)
        return found

    def commit(self, session: str, draft: Draft) -> Committed:
        """One durable step; the first one applies to the session as it was shown, or raises PlanMoved."""
        head = self._found.head
        if self._begun or head is None or session != head.session or draft.claim is None:
            return self._store.commit(session, draft)
        claim = msgspec.structs.replace(draft.claim, expected_epoch=head.epoch, expected_seq=head.seq)
        try:
            committed = self._store.commit(session, msgspec.structs.replace(draft, claim=claim))
        except Conflict:
            self._same(self._store.find(session))  # PlanMoved if that is why; else the conflict is another one
            raise
        except StoreUnavailable:
            # The outcome is unknown. The recorder resolves it by its own key, and must then be able to read a session
            # that its own commit may have moved.
            self._begun = True
            raise
        self._begun = True
        return committed

    def update(self, session: str, change: Callable[[Identity], Identity]) -> Identity:
        """Change an identity. The first change of the pinned one is of a name and labels as they were shown."""

        def checked(now: Identity) -> Identity:
            if session == self._found.identity.id:
                self._same(Record(identity=now, head=self._found.head))
            return change(now)

        changed = self._store.update(session, checked)
        if session == self._found.identity.id:
            self._naming = ""  # they are what this change made of them
        return changed

    def delete(self, sessions: Sequence[str], *, epochs: Mapping[str, int] | None = None) -> None:
        """Remove sessions. A writer of the pinned one would have to claim it first, which changes the epoch."""
        try:
            self._store.delete(sessions, epochs=epochs)
        except Conflict:
            self._same(self._store.find(self._found.identity.id))
            raise
        self._begun = True

    def rebuild_head(self, head: Head, *, instead_of: bytes | None = None) -> None:
        """Replace a damaged head; the store itself compares the former one."""
        self._store.rebuild_head(head, instead_of=instead_of)
        self._begun = True

    def _same(self, record: Record | None) -> Record | None:
        if self._begun or record is None or record.identity.id != self._found.identity.id:
            return record
        now = plan_hash(record.head, self._found.seq) if record.head is not None else ""
        renamed = self._naming and self._naming != naming_hash(record.identity.name, record.identity.labels)
        if now != self._plan or renamed:
            title = record.identity.name or record.identity.id[:8]
            raise PlanMoved(title, shown=self._plan, now=now)
        return record
