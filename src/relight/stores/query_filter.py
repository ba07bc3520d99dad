"""The conditions of a list query, for stores that filter sessions in Python."""

from __future__ import annotations

from relight.journal.search.names import asked, searchable
from relight.ports.store import Query, Record


def matches(record: Record, query: Query) -> bool:
    """Whether a session meets all conditions of a query but those on its creation time."""
    identity, head = record.identity, record.head
    wanted = (
        (query.agent, identity.agent),
        (query.provider, identity.provider),
        (query.key, identity.key),
        (query.parent, identity.parent.session if identity.parent else None),
        (query.spawned_by, identity.spawned_by),
    )
    if any(want is not None and want != have for want, have in wanted):
        return False
    if query.statuses is not None and (head is None or head.status not in query.statuses):
        return False
    if any(identity.labels.get(key) != value for key, value in query.labels.items()):
        return False
    return query.text is None or asked(query.text) in searchable(identity)
