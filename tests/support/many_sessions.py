"""Very many sessions, and one very long one, made in one transaction or a few: nobody waits for ten thousand saves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import relight
from relight.ports.store import Record
from relight.values.session import Head, Identity
from relight.values.status import Status
from relight.values.usage import Usage

_STATUSES: Final[tuple[Status, ...]] = ("completed", "failed", "completed", "halted", "completed", "terminated")


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
