"""Commit programs: generators that yield each step they want committed, as `Store.commit` takes it.

They are sent what was committed, or thrown the store's error. `driven` commits in the calling thread, `SharedCommits`
those of many tasks together.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

from relight.ports.store import SharingStore, Store
from relight.values.step import Committed, Draft

_T = TypeVar("_T")
CommitProgram: TypeAlias = Generator[tuple[str, Draft], Committed, _T]


def driven(program: CommitProgram[_T], store: Store) -> _T:
    """Run a program to its end in this thread."""
    try:
        step = next(program)
        while True:
            try:
                committed = store.commit(*step)
            except BaseException as error:
                step = program.throw(error)
            else:
                step = program.send(committed)
    except StopIteration as end:
        result: _T = end.value
        return result
    finally:
        program.close()  # where a signal handler raised between its steps: suspended, it would keep its session's lock


def sharing(store: Any) -> SharingStore | None:
    """Where this store's steps are committed together; None if it does no such thing."""
    # Asked of the class: a store around another passes on what it does not know, and its own `commit` must not be
    # passed over.
    kind = type(store)
    if hasattr(kind, "commit_all"):
        found: SharingStore = store
        return found
    return store.sharing() if hasattr(kind, "sharing") else None
