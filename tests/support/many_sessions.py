"""Very many sessions, and one very long one, made in one transaction or a few: nobody waits for ten thousand saves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

import relight
from relight.journal.search import blocks
from relight.journal.search.words import text_of, words_of
from relight.ports.store import Record
from relight.values.session import Head, Identity
from relight.values.status import Status
from relight.values.usage import Usage

_STATUSES: Final[tuple[Status, ...]] = ("completed", "failed", "completed", "halted", "completed", "terminated")


_IMPORTED: Final = 10_000
_WORDS: Final = [
    "deploy",
    "retry",
    "token",
    "login",
    "cache",
    "queue",
    "worker",
    "latency",
    "parser",
    "schema",
    "migrate",
    "invoice",
]


def records(number: int, *, begins_us: int) -> Iterator[Record]:
    """Sessions that ended in different ways, a second apart."""
    for n in range(number):
        session = f"{n:032x}"
        identity = Identity(
            id=session,
            name=f"task-{n:05d}",
            agent=("claude", "codex", "mine")[n % 3],
            provider="anthropic",
            task=f"Handle ticket {n} of the {('billing', 'login', 'search')[n % 3]} queue",
            labels={"team": f"t{n % 7}"},
            directory=f"/srv/project-{n % 40}",
            created_us=begins_us + n * 1_000_000,
        )
        status = _STATUSES[n % len(_STATUSES)]
        head = Head(
            session=session,
            seq=0,
            head=0,
            status=status,
            reason="the provider refused the key" if status == "failed" else None,
            usage=Usage(input_tokens=1000, output_tokens=50, cost=n / 1000),
            said=f"Ticket {n} is done.",
            updated_us=begins_us + n * 1_000_000 + 500_000,
            ended_us=begins_us + n * 1_000_000 + 500_000,
        )
        yield Record(identity=identity, head=head)


def crowd(store: Path, number: int, *, begins_us: int) -> None:
    """So many sessions without steps, newest last."""
    with relight.open(store) as rl:
        rl.store.import_sessions(list(records(number, begins_us=begins_us)), [], [])


def long_session(rl: relight.Relight, name: str, steps: int, *, every: int = 40) -> str:
    """A conversation of so many steps; the word `needle` is said in every so-manieth."""
    made = rl.session(name, agent="mine", provider="openai")
    for n in range(steps):
        word = "needle" if n % every == 0 else "hay"
        role = "user" if n % 2 == 0 else "assistant"
        made.append({"role": role, "content": f"message {n}: {word}"})
    session = made.id
    made.complete("done")
    made.close()
    return session


def archive(path: Path, sessions: int, steps: int, *, begins_us: int) -> None:
    """So many sessions with so many steps each, all in the index of words: rows of one real session, copied by the
    database. The digests of the copies are those of the original, so they can be listed and searched, not verified."""
    for start in range(0, sessions, _IMPORTED):
        made = list(records(min(sessions, start + _IMPORTED), begins_us=begins_us))[start:]
        with relight.open(path) as rl:
            full = [
                Record(identity=one.identity, head=msgspec.structs.replace(one.head, seq=steps, head=steps))
                for one in made
                if one.head is not None
            ]
            rl.store.import_sessions(full, [], [])
    with relight.open(path) as rl:
        with rl.session("original") as s:
            for n in range(steps - 1):  # the first step is the beginning of the attempt
                said = " ".join(f"{_WORDS[(n * 7 + k * k) % len(_WORDS)]}{(n + k) % 20}" for k in range(20))
                s.append({"role": "assistant", "content": f"step {n}: {said}"})
        original = s.id
    database = apsw.Connection(str(path))
    sid = database.execute("SELECT sid FROM sessions WHERE id = ?", (original,)).get
    columns = "size_bytes, kind, at_us, attempt, base, since, message_count, turns, open, label, key, digest"
    rows = f"steps AS s JOIN bodies AS b ON b.id = s.body WHERE s.id >> 32 = {sid} AND s.id & 4294967295 <= {steps}"
    database.execute(f"CREATE TEMP TABLE one AS SELECT s.id & 4294967295 AS n, b.data, {columns} FROM {rows}")
    first: Any = database.execute("SELECT max(id) + 1 FROM bodies").get
    others = [row[0] for row in database.execute("SELECT sid FROM sessions WHERE sid <> ? ORDER BY sid", (sid,))]
    with database:
        for number, other in enumerate(others):
            at = (first + number * steps - 1, other << 32)
            database.execute("INSERT INTO bodies (id, data, step) SELECT ?1 + n, data, ?2 | n FROM one", at)
            copied = f"INSERT INTO steps (id, body, {columns}) SELECT ?2 | n, ?1 + n, {columns} FROM one"
            database.execute(copied, at)
        bodies: Any = database.execute("SELECT data FROM one ORDER BY n").fetchall()
        words = [frozenset(words_of(text_of(data, None))) for (data,) in bodies]
        last = first + len(others) * steps
        for start in range(first >> blocks.BLOCK_BITS, (last >> blocks.BLOCK_BITS) + 1):
            places = range(max(first, start << blocks.BLOCK_BITS), min(last, start + 1 << blocks.BLOCK_BITS))
            added = blocks.rows_of((place, words[(place - first) % steps]) for place in places)
            database.executemany(
                "INSERT INTO search_words (block, word, steps) VALUES (?, ?, ?)"
                " ON CONFLICT (block, word) DO UPDATE SET steps = steps || excluded.steps",
                ((block, word, stored) for (block, word), stored in added.items()),
            )
        database.execute("UPDATE search_progress SET upto = ?", (last - 1,))
    database.close()
