"""A large SQLite store as real sessions would leave it: 100,000 sessions of 100 steps, and one of 10,000.

A few sessions are recorded through the library, with replies, calls and results. The others are their steps under ids,
times and digests of their own, adopted as bundles are. The index of words is filled as a search fills it, except that
the words of equal bodies are looked for once.
"""

from __future__ import annotations

import random
import time
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, Final, cast

import msgspec

import relight
from relight.journal.chain import step_digest
from relight.journal.codec import encode_changes
from relight.journal.search.words import text_of, words_of
from relight.ports.search import IndexedStore, Words
from relight.ports.store import Record, Store
from relight.stores.sqlite.store import SqliteStore
from relight.system.machine import SystemClock
from relight.values.session import GENESIS
from relight.values.status import ENDED, Failure, Status, StatusChange
from relight.values.step import Changes, Step

SESSIONS: Final = 100_000
STEPS: Final = 100
LONG: Final = 10_000
"""steps of the longest session"""
WAITING: Final = 233
RARE: Final = "xylograph"
"""said in one step of the oldest session"""
APART: Final = ("lighthouse", "aqueduct")
"""each said in every second session, and never both in one step"""
_SPAN_US: Final = 100 * 86_400_000_000
"""the sessions began within so much time"""
_TEMPLATES: Final = 40
_LONGEST_LOOP: Final = 1000
"""steps of a session that a loop makes; a longer one is appended, message by message"""
_BATCH: Final = 400
_PIECE: Final = 4096
_AGENTS: Final = ("claude", "codex", "mine")
_OTHERS: Final[tuple[Status, ...]] = ("failed", "failed", "halted", "terminated", "archived")
"""of 19 sessions; the others completed"""
_TOOLS: Final = ("read", "bash", "edit")
_LETTERS: Final = "etaoinshrdlucmfwypvbgkjqxz"


class _Template(msgspec.Struct, frozen=True):
    """A recorded session."""

    record: Record
    steps: list[Step]


def generated(path: Path, sessions: int = SESSIONS, steps: int = STEPS) -> Path:
    """The store at this path; made if it is not there, with its newest session a minute old."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob("partial.db*"):
        left.unlink()
    partial, now_us = path.with_name("partial.db"), round(time.time() * 1e6)
    templates = [_recorded(number, steps, path.parent) for number in range(_TEMPLATES)]
    rare, long = _recorded(0, steps, path.parent, also=RARE), _recorded(1, LONG, path.parent)
    store = SqliteStore(partial, SystemClock())
    for first in range(0, sessions, _BATCH):
        numbers = range(first, min(first + _BATCH, sessions))
        _adopt(store, [_copy(n, sessions, now_us, templates[n % _TEMPLATES] if n else rare) for n in numbers])
    _adopt(store, [_copy(sessions, sessions, now_us, long)])
    index(store)
    store.close()
    for made in path.parent.glob("partial.db*"):  # the database, and what the library keeps beside it
        made.rename(path.with_name(made.name.replace("partial.db", path.name)))
    return path


def session_id(number: int) -> str:
    """The id of a session; the number of the sessions is that of the longest. Ids begin as differently as real ones."""
    return f"{number * 2_654_435_761 % 2**32:08x}{number:024x}"


def index(store: Store) -> None:
    """Add every step to the index of words."""
    steps = cast(IndexedStore, store)
    while texts := steps.list_unindexed(_PIECE):
        found = [Words(place=t.place, session=t.session, seq=t.seq, words=_words(t.body, t.label)) for t in texts]
        assert steps.index_steps(found)


@lru_cache(maxsize=16_384)
def _words(body: bytes, label: str | None) -> frozenset[str]:
    return frozenset(words_of(text_of(body, label)))


def _recorded(number: int, steps: int, scratch: Path, *, also: str = "") -> _Template:
    """A session whose model calls a tool in every turn until it has so many steps."""
    chance, vocabulary = random.Random(number), random.Random(7)
    known = ["".join(vocabulary.choices(_LETTERS, k=vocabulary.randint(2, 10))) for _ in range(4000)]

    def prose(size: int) -> str:
        return " ".join(known[min(int(chance.paretovariate(0.5)), len(known) - 1)] for _ in range(size))

    def tool(name: str) -> Any:
        def function(path: str) -> str:
            return prose(50)

        function.__name__ = name
        return relight.tool(effect="pure")(function)

    turns, padding = divmod(steps - 5, 3) if steps < _LONGEST_LOOP else (0, steps - 5)
    replies = count(1)

    def model(_messages: object) -> relight.Reply:
        at = next(replies)
        use = {"type": "tool_use", "id": f"toolu_{at:06d}", "name": _TOOLS[at % 3], "input": {"path": prose(3)}}
        content = [{"type": "text", "text": prose(40)}, *([use] if at <= turns else [])]
        usage = {"input_tokens": 900, "output_tokens": 80, "cost": 0.004}
        return relight.Reply({"role": "assistant", "content": content}, usage, None)

    path = scratch / "partial.db"
    with relight.open(path) as rl:
        with rl.session("template", agent="claude", provider="anthropic") as s:
            for at in range(padding):
                s.append({"role": "assistant" if at % 2 else "user", "content": prose(40)})
            s.run(
                model,
                tools=[tool(name) for name in _TOOLS],
                max_turns=turns + 2,
                prompt=f"{APART[number % 2]} {also} {prose(20)}",
            )
        record = rl.store.find(s.id)
        assert record is not None
        made = _Template(record, list(rl.store.steps(s.id)))
        assert len(made.steps) == steps, len(made.steps)
    for left in scratch.glob("partial.db*"):
        if left.is_file():
            left.unlink()
    return made


def _status(number: int, sessions: int) -> Status:
    every = max(1, sessions // WAITING)
    if number % every == 0 and number // every < WAITING:
        return "waiting"
    return _OTHERS[number % 19] if number % 19 < len(_OTHERS) else "completed"


def _copy(number: int, sessions: int, now_us: int, template: _Template) -> tuple[Record, list[Step]]:
    """The same session as another one, which ended in its own way."""
    session, status = session_id(number), _status(number, sessions)
    began = now_us - 60_000_000 - _SPAN_US * (sessions - number) // sessions
    change = _change(status)
    steps, digest = [], GENESIS
    for step in template.steps:
        copy = msgspec.structs.replace(step, session=session, at_us=began + step.seq * 1_000_000)
        if step.kind == "status":
            copy = msgspec.structs.replace(copy, body=encode_changes(Changes(status=change)))
        digest = step_digest(digest, copy)
        steps.append(msgspec.structs.replace(copy, digest=digest))
    name = f"{'nightly' if number % 7 else 'fix-login'}-{number}" if number < sessions else "long"
    identity = msgspec.structs.replace(
        template.record.identity, id=session, name=name, agent=_AGENTS[number % 3], task=f"Make test {number} pass",
        labels={"team": f"t{number % 7}", "branch": f"b{number % 500}"}, created_us=began,
        directory=f"/src/project-{number % 50}",
    )  # fmt: skip
    assert template.record.head is not None
    usage = msgspec.structs.replace(template.record.head.usage, cost=number * 7919 % 100_003 / 1000)
    head = msgspec.structs.replace(
        template.record.head, session=session, digest=digest, status=status, reason=change.reason,
        failure=change.failure, question=change.question, usage=usage, updated_us=steps[-1].at_us,
        ended_us=steps[-1].at_us if status in ENDED else None,
    )  # fmt: skip
    return Record(identity=identity, head=head), steps


def _change(status: Status) -> StatusChange:
    failure = Failure(kind="auth", text="the provider refused the key") if status == "failed" else None
    reason = None if status in ("completed", "waiting") else failure.text if failure is not None else "it stopped"
    return StatusChange(
        status=status, reason=reason, failure=failure, question="go on?" if status == "waiting" else None
    )


def _adopt(store: Store, made: list[tuple[Record, list[Step]]]) -> None:
    store.import_sessions([record for record, _ in made], ((step, ()) for _, steps in made for step in steps), [])
