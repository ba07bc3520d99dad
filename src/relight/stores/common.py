"""What several stores share: named SQL statements, stand-ins for damaged rows, and the conditions of a list query."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from relight.journal.chain import unseal_head, unseal_identity
from relight.journal.codec import Undecodable
from relight.journal.search import searchable
from relight.ports.store import Query, Record
from relight.values.session import Head, Identity
from relight.values.step import Step

_NAME: Final = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_PART: Final = re.compile(r"\{(\w+)\}")


def load_statements(directory: Path) -> dict[str, str]:
    """All statements of the .sql files by name, without comments, so that a statement cache sees one text for each.

    A statement begins with `-- name: NAME` and a line of purpose, and ends where the next begins. `{NAME}` inside one
    is replaced by another. Names are unique over all files.
    """
    found: dict[str, str] = {}
    for path in sorted(directory.glob("*.sql")):
        _, *parts = _NAME.split(path.read_text(encoding="utf-8"))
        found.update((name, uncommented(text)) for name, text in zip(parts[::2], parts[1::2], strict=True))
    return {name: _PART.sub(lambda part: found.get(part[1], part[0]), text) for name, text in found.items()}


def uncommented(text: str) -> str:
    """The text without comment lines and empty lines."""
    lines = (line.rstrip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("--"))


def damaged_step(session: str, seq: int, digest: bytes = b"") -> Step:
    """A stand-in for a row that holds no valid step: it fails its digest, so that verification names its seq."""
    return Step(
        session=session,
        seq=seq,
        kind="mark",
        at_us=0,
        attempt=0,
        base=0,
        since=0,
        message_count=0,
        turns=0,
        key=b"",
        digest=digest,
        body=b"",
    )


def unsealed_identity(record: object) -> Identity | None:
    """The identity in a sealed record, or None if it is damaged."""
    try:
        return unseal_identity(record)  # type: ignore[arg-type]
    except (Undecodable, TypeError):
        return None


def unsealed_head(record: object) -> Head | None:
    """The head in a sealed record, or None if it is damaged or missing."""
    try:
        return unseal_head(record)  # type: ignore[arg-type]
    except (Undecodable, TypeError):
        return None


def matches(record: Record, query: Query) -> bool:
    """Whether a session meets all conditions of a query but those on its creation time."""
    identity, head = record.identity, record.head
    wanted = (
        (query.agent, identity.agent),
        (query.provider, identity.provider),
        (query.key, identity.key),
        (query.parent, identity.parent.session if identity.parent else None),
    )
    if any(want is not None and want != have for want, have in wanted):
        return False
    if query.statuses is not None and (head is None or head.status not in query.statuses):
        return False
    if any(identity.labels.get(key) != value for key, value in query.labels.items()):
        return False
    return query.text is None or query.text.casefold() in searchable(identity)
