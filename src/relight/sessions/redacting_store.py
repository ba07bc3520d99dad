"""Redaction between use cases and the store: whatever is written about a session passes through here.

`Recording` redacts the steps of one session; every commit passes through it before it is encoded, because a store sees
only bytes. `RecordedStore` redacts identities and heads. Which field belongs to whom is declared in
journal/redaction/recorded_fields.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from relight.journal.redaction import recorded_fields
from relight.ports.store import Record, SharingStore, Store
from relight.values.session import Head, Identity
from relight.values.snapshot import Snapshot
from relight.values.step import Changes, Step

if TYPE_CHECKING:
    from relight.journal.redaction.redactor import Redactor

REDACT_VARIABLE: Final = "RELIGHT_REDACT"
ALL: Final = "all"


class Recording:
    """Redacts the steps of one session before they are written."""

    def __init__(self, redactor: Callable[[], Redactor], *, data: bool) -> None:
        self._redactor = redactor
        self.data = data
        """redact the program's own data too: requested, or the conversation of a coding agent"""

    def changes(self, changes: Changes) -> Changes:
        """The changes of a step as they may be written."""
        if not self.data and recorded_fields.is_data_alone(changes):
            return changes
        return recorded_fields.redacted(changes, self._redactor, data=self.data)

    def data_of(self, value: Any) -> Any:
        """A value of the program as it would be stored, to compare it with what was stored."""
        return self._redactor().value(value) if self.data else value

    def about(self, text: str) -> str:
        """A text about the session as it would be stored, to compare it with what was stored."""
        return self._redactor().text(text)

    def check_key(self, key: str, what: str) -> None:
        """UsageError for a key that holds a secret, where a program's data is redacted. A placeholder in its place
        would make two keys one; a digest would change once the redactor knows more, and the effect would run twice."""
        if self.data:
            recorded_fields.refuse_secret(key, what, self._redactor)

    def check_label(self, label: str) -> None:
        """UsageError if a checkpoint's label holds a secret."""
        recorded_fields.refuse_secret(label, "the label", self._redactor)


class RecordedStore:
    """Delegates to the store; identities and heads are redacted first."""

    def __init__(self, store: Store, redactor: Callable[[], Redactor]) -> None:
        self._store, self._redactor = store, redactor
        self.commit = store.commit
        """drafts are redacted already; bound here, because `__getattr__` would be a detour for every step"""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def sharing(self) -> SharingStore | None:
        """The store itself, if it commits steps together: drafts are redacted already."""
        return sharing(self._store)

    def create(self, identity: Identity, head: Head) -> None:
        """Create a session. UsageError if its name or key holds a secret."""
        head = recorded_fields.redacted(head, self._redactor, data=identity.redact)
        self._store.create(self._clean(identity), head)

    def update(self, session: str, change: Callable[[Identity], Identity]) -> Identity:
        return self._store.update(session, lambda identity: self._clean(change(identity)))

    def import_sessions(
        self,
        records: Sequence[Record],
        steps: Iterable[tuple[Step, Sequence[Snapshot]]],
        labels: Iterable[tuple[str, int, str]],
    ) -> None:
        """Import whole sessions. Their steps are sealed and stay as they are: they were redacted when written."""
        cleaned = [msgspec.structs.replace(one, identity=self._clean(one.identity)) for one in records]
        self._store.import_sessions(cleaned, steps, labels)

    def label(self, session: str, seq: int, label: str, at_us: int) -> None:
        """Label a checkpoint. UsageError if the label holds a secret."""
        recorded_fields.refuse_secret(label, "the label", self._redactor)
        self._store.label(session, seq, label, at_us)

    def _clean(self, identity: Identity) -> Identity:
        recorded_fields.refuse_secrets_in(identity, self._redactor)
        return recorded_fields.redacted(identity, self._redactor)


def bare(store: Store) -> Store:
    """The store without its redacting wrapper."""
    return store._store if isinstance(store, RecordedStore) else store


def recorded_store(store: Store, redactor: Callable[[], Redactor]) -> Store:
    """The store behind the redactor; unchanged if it already is."""
    return store if isinstance(store, RecordedStore) else cast(Store, RecordedStore(store, redactor))


def sharing(store: Any) -> SharingStore | None:
    """Where this store's steps are committed together; None if it does no such thing."""
    # Asked of the class: a store around another passes on what it does not know, and its own `commit` must not be
    # passed over.
    kind = type(store)
    if hasattr(kind, "commit_all"):
        found: SharingStore = store
        return found
    return store.sharing() if hasattr(kind, "sharing") else None
