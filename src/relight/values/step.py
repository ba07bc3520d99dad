"""The step: the unit of recording. Its changes are stored in the journal under (session, seq).

`Changes` is what is stored; `Draft` is what a writer wants to commit; `Step` is what was committed. Every step is also
a checkpoint, and its public form is the event.
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
    """The beginning of an attempt: one continuous run of a process within a session."""

    number: int
    resumed_from: int = 0
    reason: str | None = None
    """why it was needed: how the attempt before ended"""
    owner: str = ""
    rung: str | None = None
    """native, bootstrap, fresh; for coding agents"""
    handle: str | None = None
    """runtime handle it is started in"""


class Carried(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a reset carries over, because folding starts at it and must not lose effects."""

    state: dict[str, Any] = {}
    once: dict[str, Any] = {}
    """results of finished `once` effects by key"""
    open: list[Intent] = []
    """effects in doubt: `once` keys, and calls that are in the new messages too"""
    asked: list[Asked] = []
    """open calls that are in the new messages too, begun or not: they remain the same effects"""
    generations: dict[str, int] = {}
    """of `once` keys that were allowed to run again"""
    answers: dict[str, Any] = {}
    """answers by question"""
    tools: dict[str, str] = {}
    partial: Any = None
    partials: list[Any] = []
    """partial results, oldest first; 0.1.0 stored only the newest, in `partial`"""
    answered: dict[str, Any] = {}
    """answers that are filed under a key"""
    reasons: dict[str, str] = {}
    asking: StatusChange | None = None
    prompt: dict[str, Any] | None = None
    prompts: list[str] = []
    prompt_from: int = 0
    """the first attempt that can have delivered the waiting prompt to a coding agent"""
    prompt_given: int = 0
    """the newest attempt whose agent was started with it"""
    children: dict[str, str] = {}
    """children spawned so far"""


class Changes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything one step commits, in one transaction. Defaults are shared values: most steps change little."""

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
    stream: Sequence[Any] = ()
    """text of a reply in progress that is new in this step: [whether it begins a stream, text]"""
    tools: dict[str, str] | None = None
    """fingerprint of the tools in use from here on: name to effect and signature"""
    answer: Sequence[Any] = ()
    """[question, answer], then its key and reason if there are any"""
    used: Sequence[str] = ()
    """keys of answers that were returned to the program and are used up"""
    prompt: str | None = None
    """id of the prompt passed to `loop` that the messages hold; empty if it has none"""
    stop: str | None = None
    """why the model stopped, as the provider names it, if the program passed it"""
    native: str | None = None
    """the native session from now on; empty: none any more"""
    note: dict[str, Any] | None = None
    """notes for users: what was cleared, which tools changed, who did it"""
    record: Any = None
    """record of a framework; not part of the fold (sessions/record_log.py)"""
    carried: Carried | None = None
    """only in a reset"""
    children: dict[str, str] | None = None
    """children spawned by this step, by their own names: the ids of their sessions"""


class View(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The part of a head that depends on which steps are visible; a rewind or reset replaces it."""

    head: int
    since: int
    message_count: int
    turns: int
    open: tuple[OpenEffect, ...] = ()
    said: str | None = None
    """for a rewind: the agent's last visible line"""


class Claim(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Take the lease with this commit."""

    owner: Owner
    seconds: float
    expected_epoch: int
    """the epoch under which the evidence below was gathered; another one is a conflict"""
    expected_seq: int | None = None
    """the newest seq known then: an owner presumed dead that has written since is a conflict too; None: any"""
    owner_gone: bool = False
    """the present owner was observed to be dead, or a person decided to take over"""
    slot: bool = False
    """take a slot of the session's queue with it, or be refused; no effect without a queue"""


class Draft(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A step before it is committed. Its seq is assigned inside the store's transaction."""

    kind: StepKind
    body: bytes
    """encoded `Changes`"""
    key: bytes
    """the writer's own, 8 random bytes: how an unknown outcome is resolved"""
    epoch: int = 0
    """the writer's; ignored with a claim"""
    owner: str = ""
    expected_seq: int | None = None
    """the newest seq that the changes were computed from; Conflict if there is a newer one. For writers that share a
    lease; ignored with a claim, which has its own"""
    claim: Claim | None = None
    release: bool = False
    """release the lease with this commit"""
    label: str | None = None
    messages_added: int = 0
    turns_added: int = 0
    opened: tuple[Intent, ...] = ()
    closed: tuple[tuple[int, str], ...] = ()
    """(asked_seq, id) of effects that have an outcome now"""
    view: View | None = None
    """for rewind and reset: the new view"""
    status: StatusChange | None = None
    attempt: AttemptStart | None = None
    usage: Usage | None = None
    native: str | None = None
    said: str | None = None
    snapshots: tuple[Snapshot, ...] = ()
    """taken with this step; the rows of their segments must still exist"""
    queue_position: QueuePosition | None = None
    """new queue position; one with an empty queue: none any more"""


class Step(msgspec.Struct, frozen=True, gc=False):
    """A committed step, body still encoded. Everything except `digest` is covered by the digest, in this order."""

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
    open: tuple[OpenEffect, ...]
    label: str | None
    """given when it was committed; later labels are stored beside the journal"""
    key: bytes
    digest: bytes
    body: bytes


class Committed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A store's acknowledgement of a commit."""

    step: Step
    head: Head
