"""Journals of real sessions, recorded step by step, played into a store at any pace.

Recorded from Claude Code and Codex under `relight run`, with hooks, against the fake model; long texts are cut, and
names of places replaced. A step is committed as it was, so what is shown of it is what a person would have seen.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from relight.journal.codec import encode_changes
from relight.system.machine import SystemClock, SystemEntropy, SystemHost
from relight.values.session import Head, Identity
from relight.values.step import Changes, Claim, Draft

DIRECTORY: Final = Path(__file__).resolve().parents[1] / "data" / "journals"
KINDS: Final = ("claude-code", "codex")


class Player:
    """One recorded session, at its beginning; `step` commits the next step, by an owner that is alive."""

    def __init__(self, rl: Any, kind: str, name: str) -> None:
        about, *self._left = map(json.loads, (DIRECTORY / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines())
        self._store, self._entropy = rl.store, SystemEntropy()
        self.session = self._entropy.session_id()
        self._owner = SystemHost().owner(self._entropy.session_id())
        identity = Identity(id=self.session, name=name, created_us=SystemClock().now_us(), **about)
        self._store.create(identity, Head(session=self.session, status="queued"))

    @property
    def left(self) -> int:
        """How many steps are not committed yet."""
        return len(self._left)

    def step(self) -> None:
        """Commit the next step."""
        recorded = self._left.pop(0)
        changes = msgspec.convert(recorded["changes"], Changes)
        claim = Claim(owner=self._owner, seconds=300, expected_epoch=0) if changes.attempt is not None else None
        replies = [one for one in changes.messages if "assistant" in (one.get("type"), one.get("role"))]
        draft = Draft(
            kind=recorded["kind"],
            body=encode_changes(changes),
            key=self._entropy.key(),
            epoch=0 if claim is not None else 1,
            owner=self._owner.id,
            claim=claim,
            release=not self._left,
            messages_added=len(changes.messages),
            turns_added=bool(replies),
            opened=tuple(changes.intents),
            closed=tuple((one.asked_seq, one.id) for one in changes.outcomes),
            status=changes.status,
            attempt=changes.attempt,
            usage=changes.usage,
            native=changes.native,
        )
        self._store.commit(self.session, draft)

    def play(self, steps: int | None = None) -> Player:
        """Commit so many steps, or all that are left."""
        for _ in range(self.left if steps is None else steps):
            self.step()
        return self
