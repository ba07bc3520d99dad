"""What a tool or `once` returned, as JSON: dataclasses, structs, pydantic models, dates and the like are converted.

The effect has happened when its result is looked at, so nothing here may lose it: a value that cannot be kept is
recorded as its `repr`, and a warning is logged. What a generator or a coroutine does happens only when it is read or
awaited, which belongs to the run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Coroutine, ItemsView, Iterator, KeysView, ValuesView
from pathlib import PurePath
from typing import Any, Final

import msgspec

from relight.errors import InvalidMessage, UsageError
from relight.journal.codec import isolated

UNSUPPORTED: Final = NotImplementedError
"""what a hook of msgspec raises for a type that it does not know, and msgspec then raises itself"""
MAX_REPR: Final = 2000
"""characters kept of a value that is not JSON"""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The content to record, and why it is not the value itself."""

    content: Any
    problem: str = ""
    """empty if the value was kept"""


def all_of(returned: Any) -> Any:
    """What a function returned, an iterator read to its end: until then the work of a generator is not done. Of an
    async one a coroutine, which reads it.

    An iterator for `with` is left as it is, such as the cursor of a database, a file or a response: its function has
    done its work, and to read it may fail (a cursor of an INSERT has no rows), which would be taken for a failure of
    that work.
    """
    if not is_unread(returned):
        return returned
    return all_awaited(returned) if isinstance(returned, AsyncIterator) else list(returned)


def is_unread(returned: Any) -> bool:
    """Whether it is an iterator that `all_of` reads."""
    if isinstance(returned, AsyncIterator):
        return not hasattr(returned, "__aexit__")
    return isinstance(returned, Iterator) and not hasattr(returned, "__exit__")


async def all_awaited(returned: Iterator[Any] | AsyncIterator[Any]) -> list[Any]:
    """The same of what a coroutine function returned, in the thread of its event loop: a cursor of sqlite3, for one,
    can be read in no other."""
    return [one async for one in returned] if isinstance(returned, AsyncIterator) else list(returned)


class NotAwaited(UsageError):
    """A function returned what has to be awaited, where nothing awaits it: its work has not been done."""


def refuse_unawaited(returned: Any, what: str) -> None:
    """NotAwaited for a coroutine and the like. `relight.aio` has awaited it before."""
    if not isinstance(returned, Awaitable):
        return
    if isinstance(returned, Coroutine):
        returned.close()
    kind = type(returned).__name__
    hints = ["await it: relight.aio has the same verbs"]
    raise NotAwaited(f"{what} returned a {kind}, which nothing awaits here; it was not run", hints=hints)


def kept(returned: Any, what: str) -> Kept:
    """The JSON value for what `what` returned. Never raises an Exception."""
    try:
        return Kept(content=isolated(returned))
    except InvalidMessage as refused:
        why: Exception = refused
    try:
        plain = msgspec.to_builtins(returned, str_keys=True, enc_hook=_as_plain)
        return Kept(content=isolated(plain))
    except Exception as error:  # a hook of a user's class may raise anything, and the effect has happened
        why = why if isinstance(error, UNSUPPORTED) else error
    problem = f"{what} is done, but what it returned cannot be kept ({why}); its repr is recorded instead"
    return Kept(content=_shown(returned), problem=problem)


def _as_plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, KeysView | ValuesView | ItemsView | range):
        return list(value)
    if isinstance(value, str):
        return str.__str__(value)
    for kind in (int, float):  # subclasses of the plain types
        if isinstance(value, kind):
            return kind(value)
    raise UNSUPPORTED


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:  # the same: whatever its repr raises, the effect has happened
        text = f"<{type(value).__name__}, whose repr raises {type(error).__name__}>"
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= MAX_REPR else f"{text[:MAX_REPR]}... ({len(text):,} characters)"
