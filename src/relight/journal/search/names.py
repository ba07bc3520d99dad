"""Which texts of a session a search covers, the same for every store."""

from __future__ import annotations

from relight.values.session import Identity


def searchable(identity: Identity) -> str:
    """All searchable text of a session, case folded."""
    labels = [f"{key}={value}" for key, value in identity.labels.items()]
    names = [identity.name, identity.former_name]
    parts = [*names, identity.id, identity.key, identity.task, identity.directory, identity.agent, *labels]
    return "\n".join(part for part in parts if part).casefold()
