"""Environment of a check: a new store, a manual clock, shortcuts for writing and reading, expectations.

Expectations raise `AssertionError` with the requirement as text, because the kit also runs without a test framework.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec

from relight.journal.codec import encode_changes
from relight.ports.store import Record, Store
from relight.testing.clock import ManualClock, SeededEntropy
from relight.values.lease import Owner
from relight.values.session import Head, Identity, Parent
from relight.values.status import Status, StatusChange
from relight.values.step import Changes, Claim, Committed, Draft, Step, StepKind

LEASE_SECONDS: Final = 30.0


class Hooks(msgspec.Struct, frozen=True, kw_only=True):
    """What a store may offer beyond its port, so that more can be checked."""

    bytes_at_rest: Callable[[Store], bytes | None] = lambda store: None
    break_head: Callable[[Store, str], bool] = lambda store, session: False


class Check(Protocol):
    """One check; its docstring states the requirement."""

    __name__: str

    def __call__(self, trial: Trial) -> None: ...


class Trial:
    """Store, clock and shortcuts for one check."""

    def __init__(self, store: Store, clock: ManualClock, hooks: Hooks) -> None:
        self.store = store
        self.clock = clock
        self.hooks = hooks
        self.entropy = SeededEntropy(7)

    # -- writing --------------------------------------------------------------------------------------------------

    def begin(self, *, status: Status = "queued", **fields: Any) -> str:
        """Create a session; its id. Advances the clock, so that every session has its own time."""
        self.clock.advance(1.0)
        given: dict[str, Any] = {"id": self.entropy.session_id(), "created_us": self.clock.now_us(), **fields}
        identity = Identity(**given)
        self.store.create(identity, Head(session=identity.id, status=status))
        return identity.id

    def fork(self, parent: str, **fields: Any) -> str:
        """Create a fork of a session's newest step; its id."""
        head = self.head(parent)
        session = self.entropy.session_id()
        self.clock.advance(1.0)
        identity = Identity(
            id=session, created_us=self.clock.now_us(), parent=Parent(session=parent, seq=head.seq), **fields
        )
        self.store.create(identity, Head(session=session, seq=head.seq, head=head.seq, digest=head.digest))
        return session

    def claim(
        self,
        session: str,
        owner: str = "first",
        *,
        gone: bool = False,
        epoch: int | None = None,
        seq: int | None = None,
    ) -> Committed:
        """Commit a step that claims the lease."""
        expected = self.head(session).epoch if epoch is None else epoch
        claim = Claim(
            owner=Owner(id=owner),
            seconds=LEASE_SECONDS,
            expected_epoch=expected,
            expected_seq=seq,
            owner_gone=gone,
        )
        return self.store.commit(session, self.draft(kind="attempt", claim=claim))

    def append(self, session: str, owner: str = "first", *, epoch: int = 1, **fields: Any) -> Committed:
        """Commit one step under a lease."""
        return self.store.commit(session, self.draft(owner=owner, epoch=epoch, **fields))

    def draft(self, *, kind: StepKind = "message", text: str = "hello", **fields: Any) -> Draft:
        """A draft with one message, whose body names the given snapshots, as every writer's does."""
        taken = {one.root: one.id for one in fields.get("snapshots", ())}
        body = encode_changes(Changes(messages=[{"role": "user", "content": text}], snapshot=taken or None))
        given: dict[str, Any] = {"kind": kind, "body": body, "key": self.entropy.key(), **fields}
        return Draft(**given)

    def change(self, session: str, status: Status, **fields: Any) -> Committed:
        """Commit a step that changes the status."""
        return self.append(session, status=StatusChange(status=status), **fields)

    def working(self, steps: int = 0, **fields: Any) -> str:
        """Create a working session owned by `first` under epoch 1, with `steps` messages; its id."""
        session = self.begin(**fields)
        self.claim(session)
        self.change(session, "working")
        for number in range(steps):
            self.append(session, text=f"message {number}", messages_added=1)
        return session

    # -- reading --------------------------------------------------------------------------------------------------

    def record(self, session: str) -> Record:
        """The record of a session, which must exist."""
        record = self.store.find(session)
        require(record is not None, f"{session} exists")
        assert record is not None
        return record

    def head(self, session: str) -> Head:
        """The head of a session, which must be readable."""
        head = self.record(session).head
        require(head is not None, f"{session} has a head")
        assert head is not None
        return head

    def steps(self, session: str, *, after: int = 0, upto: int | None = None) -> list[Step]:
        """The steps of a session, without its ancestors'."""
        return list(self.store.steps(session, after=after, upto=upto))

    def seqs(self, session: str) -> list[int]:
        return [step.seq for step in self.steps(session)]

    def unchanged(self, session: str, act: Callable[[], object], error: type[Exception]) -> None:
        """Require that `act` raises `error` and leaves the session unchanged."""
        before = self.record(session), self.steps(session)
        refused(act, error)
        equal((self.record(session), self.steps(session)), before, f"a {error.__name__} leaves nothing behind")


def require(condition: object, promise: str) -> None:
    """Require a condition; AssertionError with the text otherwise."""
    if not condition:
        raise AssertionError(f"not so: {promise}")


def equal(got: object, wanted: object, promise: str) -> None:
    """Require that two values are equal."""
    if got != wanted:
        raise AssertionError(f"not so: {promise}\n      got    {_shown(got)}\n      wanted {_shown(wanted)}")


def refused(act: Callable[[], object], *errors: type[Exception]) -> Exception:
    """Require that `act` raises one of these errors; returns it."""
    try:
        result = act()
    except errors as error:
        return error
    names = " or ".join(error.__name__ for error in errors)
    raise AssertionError(f"not so: it is refused with {names}; it returned {_shown(result)}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 600 else f"{text[:400]} … {text[-180:]}"


def ids(records: Sequence[Record]) -> list[str]:
    """The ids of sessions, in order."""
    return [record.identity.id for record in records]
