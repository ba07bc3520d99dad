"""The smallest recorded unit. A step is its changes, sealed into the journal under (session, seq).

`Changes` is what is stored; `Draft` is what a writer wants to commit; `Step` is what was committed. A step is also a
checkpoint, and its public projection is the event: nothing is stored twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from relight.values.call import Asked, Intent, OpenEffect, Outcome
from relight.values.lease import Owner
from relight.values.queues import QueuePosition
from relight.values.session import Head
from relight.values.snapshot import Snapshot
from relight.values.status import StatusChange
from relight.values.usage import Usage

StepKind = Literal["message", "intent", "result", "state", "mark", "status", "attempt", "rewind", "reset"]


class AttemptStart(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One continuous life of a process within a session begins."""

    number: int
    resumed_from: int = 0
    reason: str | None = None
    """why it was needed: the death or the verdict before it"""
    owner: str = ""
    rung: str | None = None
    """native, bootstrap, fresh; for coding agents"""
    handle: str | None = None
    """the place it is started in"""


class Carried(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a reset takes along, because folding will start at it and must not forget effects."""

    state: dict[str, Any] = {}
    once: dict[str, Any] = {}
    """results of finished `once` effects by key"""
    open: list[Intent] = []
    """effects in doubt: `once` keys, and calls that stand in the new messages too"""
    asked: list[Asked] = []
    """open calls that stand in the new messages too, begun or not: they stay the effects they are"""
    generations: dict[str, int] = {}
    """of `once` keys that somebody let run again"""
    answers: dict[str, Any] = {}
    """answers of `wait` by question"""
    tools: dict[str, str] = {}
    partial: Any = None
    partials: list[Any] = []
    """partial results, oldest first; a store of 0.1.0 has the newest alone, in `partial`"""
    answered: dict[str, Any] = {}
    """answers that are filed under a key"""
    reasons: dict[str, str] = {}
    asking: StatusChange | None = None
    prompt: dict[str, Any] | None = None
    prompts: list[str] = []
    prompt_from: int = 0
    """the first attempt that can have told a coding agent the prompt that waits for it"""
    prompt_given: int = 0
    """the newest attempt whose agent was started with it"""


class Changes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that one step commits; one transaction, or nothing. Defaults are shared values: most steps change little."""

    messages: Sequence[dict[str, Any]] = ()
    """the provider's own dicts, verbatim"""
    state: dict[str, Any] | None = None
    """keys set"""
    unset: Sequence[str] = ()
    """keys removed"""
    intents: Sequence[Intent] = ()
    outcomes: Sequence[Outcome] = ()
    usage: Usage | None = None
    status: StatusChange | None = None
    attempt: AttemptStart | None = None
    snapshot: dict[str, str] | None = None
    """root name to snapshot id"""
    partial: Sequence[Any] = ()
    """partial results, oldest first"""
    tools: dict[str, str] | None = None
    """fingerprint of the tools in use from here on: name to effect and signature"""
    answer: Sequence[Any] = ()
    """[question, answer], with the key it is filed under and the reason where there are such"""
    used: Sequence[str] = ()
    """keys of answers that were given to the program and count no longer"""
    prompt: str | None = None
    """the messages hold a prompt that the program gave to `loop`: its id, empty where it has none"""
    stop: str | None = None
    """why the model stopped, in the provider's word, where the program passed it on"""
    native: str | None = None
    """the agent's own session from here on; empty: none any more"""
    note: dict[str, Any] | None = None
    """marks for people: what was cleared, which tools changed, who did it"""
    record: Any = None
    """what a framework keeps with this step; no part of the fold (sessions/record_log.py)"""
    carried: Carried | None = None
    """only in a reset"""


class View(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The part of a head that depends on which steps are visible; a rewind or reset replaces it."""

    head: int
    since: int
    message_count: int
    turns: int
    open: tuple[OpenEffect, ...] = ()
    said: str | None = None
    """a rewind: the agent's last words in view"""


class Claim(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Take the lease with this commit."""

    owner: Owner
    seconds: float
    expected_epoch: int
    """the epoch that the evidence below was gathered under; another one is a conflict"""
    expected_seq: int | None = None
    """the newest seq that was known then: an owner thought dead that wrote since is a conflict too; None: whatever"""
    owner_gone: bool = False
    """the present owner was seen to be dead, or a person said to take it"""
    slot: bool = False
    """take a slot of the session's queue with it, or be refused; nothing where it stands in no line"""


class Draft(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A step before it is committed. It has no seq: that is decided inside the store's transaction."""

    kind: StepKind
    body: bytes
    """encoded `Changes`"""
    key: bytes
    """the writer's own, 8 random bytes: how an unknown outcome is resolved"""
    epoch: int = 0
    """the writer's; ignored with a claim"""
    owner: str = ""
    claim: Claim | None = None
    release: bool = False
    """give the lease back with this commit"""
    label: str | None = None
    messages_added: int = 0
    turns_added: int = 0
    opened: tuple[Intent, ...] = ()
    closed: tuple[tuple[int, str], ...] = ()
    """(asked_seq, id) of effects that have an outcome now"""
    view: View | None = None
    """rewind and reset: what the view becomes"""
    status: StatusChange | None = None
    attempt: AttemptStart | None = None
    usage: Usage | None = None
    native: str | None = None
    said: str | None = None
    snapshots: tuple[Snapshot, ...] = ()
    """taken with this step; the segments they lie in must still have their rows"""
    place: QueuePosition | None = None
    """another place in line from here on; one without a queue: none any more"""


class Step(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A committed step, body still encoded. Everything here but `digest` is covered by the digest."""

    session: str
    seq: int
    kind: StepKind
    at_us: int
    attempt: int
    base: int
    """the step it builds on: the head before it, or a rewind's target"""
    since: int
    message_count: int
    turns: int
    open: tuple[OpenEffect, ...] = ()
    label: str | None = None
    """given when it was committed; labels given later stand beside the journal"""
    key: bytes
    digest: bytes
    body: bytes


class Committed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a store answers to a commit: the word that comes after the row."""

    step: Step
    head: Head
