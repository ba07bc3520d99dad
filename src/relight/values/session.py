"""A session in two values: `Identity`, which hardly ever changes, and `Head`, which moves with every step.

They are apart because every step rewrites the head, and a long task or a large metadata value must not be rewritten
with it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from relight.values.call import OpenEffect
from relight.values.lease import Lease
from relight.values.policy import RunPolicy
from relight.values.queues import QueuePosition
from relight.values.status import Asking, Failure, Status
from relight.values.usage import Usage

GENESIS = b"\0" * 32
"""the digest before the first step"""


class Parent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The checkpoint a fork was made from."""

    session: str
    seq: int
    known: int | None = None
    """the parent's newest seq at that moment: outcomes up to it count for calls that were open; None: of 0.1.0"""

    def __str__(self) -> str:
        return f"{self.session}@{self.seq}"


class Identity(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a session is."""

    id: str
    name: str | None = None
    """unique among unarchived sessions; given up when another session begins under it"""
    former_name: str | None = None
    """the name it gave up when it was archived and another session wanted it; by it, it is found where nobody has it"""
    key: str | None = None
    """any text: the id of a job or of a framework's thread; searchable, never a path"""
    agent: str | None = None
    provider: str | None = None
    model: str | None = None
    task: str | None = None
    labels: dict[str, str] = {}
    metadata: dict[str, Any] = {}
    parent: Parent | None = None
    command: list[str] | None = None
    """what to start again, for sessions begun by `relight run`"""
    directory: str | None = None
    """where the command runs"""
    runtime: str | None = None
    workspace: dict[str, str] = {}
    """root name to path"""
    pools: dict[str, str] = {}
    """root name to the pool its content lies in; a fork shares its parent's"""
    snapshot: str | float = "step"
    """when files are captured: step, turn, manual, or at most every so many seconds"""
    policy: RunPolicy = RunPolicy()
    """how a supervisor treats it"""
    secrets: list[str] = []
    """names of the variables its first start took credentials from; never their values"""
    env: dict[str, str] = {}
    """variables that every start of it sets, whoever starts it, wherever"""
    spawned_by: str | None = None
    """the session whose program started the program that began this one; a fork's origin is `parent`"""
    unrecorded: list[str] = []
    """kinds of secrets that its command line held and this record does not: without them it cannot be started again"""
    redact: bool = False
    """is the program's own data redacted too before it is written?"""
    place: QueuePosition | None = None
    """where it stands in line; the head repeats it, and is what counts"""
    stop_attempt: int | None = None
    """a person asked, from another machine, that this attempt ends; whoever runs it looks here"""
    unlabelled: list[int] = []
    """steps that were given a label when they were committed, and lost it with their checkpoint"""
    created_us: int
    models: list[tuple[int, str]] = []
    """(seq, model): the models that were in use before this one, each up to that step; empty text: unknown"""

    def model_at(self, seq: int) -> str | None:
        """The model that was in use when this step was committed."""
        for upto, model in self.models:
            if seq <= upto:
                return model or None
        return self.model

    def with_model(self, model: str | None, *, after: int) -> Identity:
        """Another model from the step after this one on."""
        models = [*self.models, (after, self.model or "")] if after and model != self.model else self.models
        return msgspec.structs.replace(self, model=model, models=models)


class Head(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Where a session stands. The store rewrites it in the same transaction as the step it follows from."""

    session: str
    seq: int = 0
    """the newest step"""
    head: int = 0
    """the checkpoint the session stands on; below `seq` right after a rewind"""
    digest: bytes = GENESIS
    """of the newest step"""
    since: int = 0
    """the reset that folding starts at; 0 for the beginning"""
    message_count: int = 0
    turns: int = 0
    open: tuple[OpenEffect, ...] = ()
    """intents without outcome in the head's view"""
    status: Status = "queued"
    reason: str | None = None
    failure: Failure | None = None
    question: str | None = None
    asking: Asking | None = None
    wake_us: int | None = None
    attempt: int = 0
    resumed_from: int | None = None
    """the head the newest attempt started from"""
    usage: Usage = Usage()
    worked_us: int = 0
    """how long it was spawning or working, all attempts together, up to the newest step"""
    size_bytes: int = 0
    """stored bytes of all own steps"""
    said: str | None = None
    """the first line of the agent's last text"""
    native: str | None = None
    """the agent's own session that holds the same conversation; None where there is none that does"""
    handle: str | None = None
    """the place it was started in, for runtimes whose places outlast a process"""
    updated_us: int = 0
    """when the newest step was committed"""
    ended_us: int | None = None
    epoch: int = 0
    """raised by every claim; a write under an older one is refused"""
    lease: Lease | None = None
    place: QueuePosition | None = None
    """where it stands in line whenever it is queued; None: no worker takes it up"""
