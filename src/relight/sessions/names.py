"""Names: whom a text names, which names are free, and how an archived session gives its name up.

A name is unique among unarchived sessions. An archived session keeps its name only as long as nobody else wants it: it
gives the name up in a write of its own before the new session begins, and is found by its former name again where
nobody has it. A death between the two writes costs nothing: the name is free then.
"""

from __future__ import annotations

from typing import Final

import msgspec

from relight.errors import Conflict
from relight.ports.store import Query, Record, Store
from relight.sessions.context import Context
from relight.values.ref import check_name, is_session_id

_MAX_SCANNED: Final = 100
"""archived sessions that are looked at for a former name, newest first"""


def find_exactly(store: Store, text: str) -> Record | None:
    """By full id or by name. What is not an id as relight makes them is a name first, so that no id from elsewhere
    stands before a session's own name."""
    if is_session_id(text):
        return store.find(text) or store.find_named(text)
    return store.find_named(text) or store.find(text)


def find_former(store: Store, name: str) -> Record | None:
    """The newest archived session that once had this name."""
    query = Query(statuses=frozenset({"archived"}), text=name, limit=_MAX_SCANNED)
    return next((one for one in store.list_sessions(query) if one.identity.former_name == name), None)


def is_free(context: Context, name: str) -> bool:
    """May a session begin under it? An archived one's name is free."""
    record = context.store.find_named(name)
    return record is None or _is_archived(record)


def check_free(context: Context, name: str | None, *hints: str) -> None:
    """Conflict where an unarchived session has this name."""
    if name is not None and not is_free(context, check_name(name)):
        raise Conflict(f"{name}: the name is taken", hints=[*hints, "choose another name"])


def release_archived(context: Context, name: str | None) -> None:
    """Before a session begins under a name: an archived one that still has it gives it up, and keeps its id."""
    record = context.store.find_named(name) if name is not None else None
    if record is not None and _is_archived(record):
        context.store.update(msgspec.structs.replace(record.identity, name=None, former_name=name))


def _is_archived(record: Record) -> bool:
    return record.head is not None and record.head.status == "archived"
