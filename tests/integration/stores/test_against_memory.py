"""Whatever is done to both, the SQLite store and the memory store give the same answers."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import msgspec
from hypothesis import Phase, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from relight.errors import RelightError
from relight.ports.store import Query, Store
from relight.stores.memory import MemoryStore
from relight.stores.sqlite.store import SqliteStore
from relight.testing.clock import ManualClock, SeededEntropy
from relight.values.call import Intent
from relight.values.lease import Owner
from relight.values.session import Head, Identity, Parent
from relight.values.snapshot import Snapshot
from relight.values.status import STATUSES, StatusChange
from relight.values.step import Claim, Draft, View

NAMES = st.sampled_from([None, "one", "two", "three"])
TEXTS = st.sampled_from(["", "a", "A%b_", "ümläut", "\ud800", "\ufdd0x", "long " * 40])
WORDS = st.sampled_from(["a", "b", "\ud800"])
OWNERS = st.sampled_from(["x", "y"])
LABELS = st.dictionaries(WORDS, WORDS, max_size=2)


class BothStores(RuleBasedStateMachine):
    sessions = Bundle("sessions")

    @initialize()
    def open_both(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.clock = ManualClock()
        self.entropy = SeededEntropy(1)
        self.model: Store = MemoryStore(self.clock)
        self.store: Store = self.reopened()
        self.known: list[str] = []

    def reopened(self) -> Store:
        return SqliteStore(Path(self.directory.name) / "relight.db", self.clock)

    def both(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call it on both; answers and kinds of refusal are the same."""
        answers = []
        for store in (self.model, self.store):
            try:
                answer = getattr(store, name)(*args, **kwargs)
                answers.append(list(answer) if name == "steps" else answer)
            except RelightError as error:
                answers.append((type(error), error.message))
        assert answers[0] == answers[1], name
        return answers[0]

    @rule(
        target=sessions, name=NAMES, key=TEXTS, labels=LABELS, status=st.sampled_from(STATUSES), age=st.integers(0, 3)
    )
    def create(self, name: str | None, key: str, labels: dict[str, str], status: Any, age: int) -> str:
        session = self.entropy.session_id()
        identity = Identity(
            id=session, name=name, key=key, labels=labels, task=key, agent=key[:1], created_us=1000 + age
        )
        self.both("create", identity, Head(session=session, status=status))
        self.known.append(session)
        return session

    @rule(target=sessions, parent=sessions)
    def fork(self, parent: str) -> str:
        record = self.both("find", parent)
        if record is None:
            return parent
        session = self.entropy.session_id()
        identity = Identity(id=session, created_us=1002, parent=Parent(session=parent, seq=record.head.seq))
        head = Head(session=session, seq=record.head.seq, head=record.head.seq, digest=record.head.digest)
        self.both("create", identity, head)
        self.known.append(session)
        return session

    @rule(session=sessions, name=NAMES, labels=LABELS, key=TEXTS)
    def update(self, session: str, name: str | None, labels: dict[str, str], key: str) -> None:
        record = self.both("find", session)
        if record is not None:
            self.both("update", session, lambda now: msgspec.structs.replace(now, name=name, labels=labels, key=key))

    @rule(session=sessions, owner=OWNERS, gone=st.booleans(), late=st.integers(0, 1))
    def claim(self, session: str, owner: str, gone: bool, late: int) -> None:
        record = self.both("find", session)
        epoch = max(record.head.epoch - late, 0) if record is not None else 0
        claim = Claim(owner=Owner(id=owner), seconds=30, expected_epoch=epoch, owner_gone=gone)
        self.both("commit", session, Draft(kind="attempt", body=b"claim", key=self.entropy.key(), claim=claim))

    @rule(
        session=sessions,
        owner=OWNERS,
        late=st.integers(0, 1),
        label=st.none() | WORDS,
        status=st.none() | st.sampled_from(STATUSES),
        extra=st.sampled_from(["", "open", "close", "rewind", "release", "snapshot"]),
        size=st.sampled_from([0, 10, 3000, 9000]),
    )
    def commit(
        self, session: str, owner: str, late: int, label: str | None, status: Any, extra: str, size: int
    ) -> None:
        record = self.both("find", session)
        choices: dict[str, dict[str, Any]] = {
            "": {},
            "open": {"opened": (Intent(id="c", name="t", effect="once", asked_seq=1),)},
            "close": {"closed": ((1, "c"),)},
            "rewind": {"kind": "rewind", "view": View(head=1, since=0, message_count=0, turns=0)},
            "release": {"release": True},
            "snapshot": {"snapshots": (Snapshot(id=f"s{size}", root="r", pool="p", segments=("one",)),)},
        }
        draft = Draft(
            **{"kind": "message", **choices[extra]},
            body=bytes(size),
            key=self.entropy.key(),
            owner=owner,
            epoch=max(record.head.epoch - late, 0) if record is not None else 0,
            label=label,
            status=StatusChange(status=status) if status else None,
            messages_added=1,
        )
        committed = self.both("commit", session, draft)
        if not isinstance(committed, tuple):
            self.both("find_commit", session, draft.key, after=committed.step.seq - 1)

    @rule(session=sessions, owner=OWNERS, verb=st.sampled_from(["renew", "release"]), epoch=st.integers(0, 3))
    def heartbeat(self, session: str, owner: str, verb: str, epoch: int) -> None:
        self.both(verb, session, owner=owner, epoch=epoch)

    @rule(session=sessions, seq=st.integers(1, 5), label=WORDS)
    def label(self, session: str, seq: int, label: str) -> None:
        self.both("label", session, seq, label, 0)

    @rule(session=sessions, seq=st.integers(1, 5), verb=st.sampled_from(["unlabel", "drop_snapshots"]))
    def take_away(self, session: str, seq: int, verb: str) -> None:
        self.both(verb, session, seq)

    @rule(verb=st.sampled_from(["add_segment", "remove_segments"]))
    def segment(self, verb: str) -> None:
        self.both(verb, "p", "one" if verb == "add_segment" else ["one"])

    @rule(first=sessions, second=sessions)
    def delete(self, first: str, second: str) -> None:
        self.both("delete", [first, second])

    @rule(seconds=st.sampled_from([1.0, 20.0, 40.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.reopened()

    @rule(
        statuses=st.none() | st.frozensets(st.sampled_from(STATUSES), max_size=4),
        key=st.none() | TEXTS,
        labels=LABELS,
        text=st.none() | TEXTS,
        parent=st.none() | sessions,
        before=st.none() | st.tuples(st.integers(1000, 1004), st.sampled_from(["", "8", "f"])),
        since=st.none() | st.integers(1000, 1004),
        limit=st.sampled_from([0, 1, 3, 100]),
    )
    def listing(self, **fields: Any) -> None:
        fields["created_since_us"] = fields.pop("since")
        self.both("list_sessions", Query(**fields))

    @invariant()
    def the_same_in_every_respect(self) -> None:
        if not hasattr(self, "known"):
            return
        for session in self.known[-3:]:
            self.both("find", session)
            self.both("steps", session)
            self.both("checkpoints", session, after=1)
            self.both("find_label", session, "a")
            self.both("find_prefixed", session[:4], 3)
        self.both("count_sessions")
        self.both("find_named", "one")
        self.both("list_snapshots", "p")
        self.both("list_pools")

    def teardown(self) -> None:
        if hasattr(self, "store"):
            assert self.store.check() == []
            self.store.close()
            self.directory.cleanup()


TestBothStores = BothStores.TestCase
PHASES = (Phase.reuse, Phase.generate)  # shrinking a run of forty steps takes longer than reading it
TestBothStores.settings = settings(stateful_step_count=40, deadline=None, phases=PHASES)
