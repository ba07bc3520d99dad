"""A session in two values: `Identity`, which rarely changes, and `Head`, which changes with every step.

They are separate because every step rewrites the head, and a long task or large metadata must not be rewritten with it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
    """the parent's newest seq at that moment: outcomes up to it count for open calls; None: written by 0.1.0"""

    def __str__(self) -> str:
        return f"{self.session}@{self.seq}"


class Away(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Why another agent has a session than the one it was begun with."""

    home: str
    """the agent it was begun with"""
    until_us: int | None
    """the end of its usage limit; None: not known"""


class Identity(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The stored description of a session."""

    id: str
    name: str | None = None
    """unique among unarchived sessions; an archived one releases it to a new session"""
    former_name: str | None = None
    """the name it released after it was archived; it is still found by it while no other session has it"""
    key: str | None = None
    """any text, such as the id of a job or of a framework's thread; searchable, never a path"""
    agent: str | None = None
    provider: str | None = None
    model: str | None = None
    task: str | None = None
    labels: dict[str, str] = {}
    metadata: dict[str, Any] = {}
    parent: Parent | None = None
    command: list[str] | None = None
    """what to start again, for sessions begun by `relight run`"""
    commands: dict[str, list[str]] = {}
    """by agent: the commands of those that had the session before it was handed over"""
    away: Away | None = None
    """set while a fallback agent has it"""
    windows: int = 0
    """usage limits that it has reached"""
    directory: str | None = None
    """where the command runs"""
    runtime: str | None = None
    workspace: dict[str, str] = {}
    """root name to path"""
    pools: dict[str, str] = {}
    """root name to the pool that stores its content; a fork shares its parent's"""
    snapshot: str | float = "step"
    """when files are captured: step, turn, manual, or at most every so many seconds"""
    policy: RunPolicy = RunPolicy()
    """how a supervisor treats it"""
    secrets: list[str] = []
    """names of the credential variables of its first start; never their values"""
    env: dict[str, str] = {}
    """variables that every start of it sets, on any machine"""
    spawned_by: str | None = None
    """the session whose program started the program that began this one; a fork's origin is `parent`"""
    subagent: str | None = None
    """the id that the coding agent of `spawned_by` has for it, if it is a sub-agent of it; `key` is the call that began
    it, and only that agent continues it"""
    unrecorded: list[str] = []
    """kinds of secrets removed from the recorded command line: without them it cannot be started again"""
    redact: bool = False
    """whether the program's own data is redacted too before it is written"""
    queue_position: QueuePosition | None = msgspec.field(default=None, name="place")
    """queue position it was created with; the one in the head is authoritative"""
    stop_attempt: int | None = None
    """the attempt that a stop was requested for from another machine; its supervisor polls this"""
    unlabelled: list[int] = []
    """steps that were committed with a label that was removed since"""
    created_us: int
    models: list[tuple[int, str]] = []
    """(seq, model): models used before the present one, each up to that step; empty text: unknown"""

    def model_at(self, seq: int) -> str | None:
        """The model in use when this step was committed."""
        for upto, model in self.models:
            if seq <= upto:
                return model or None
        return self.model

    def with_model(self, model: str | None, *, after: int) -> Identity:
        """The identity with another model after this step."""
        models = [*self.models, (after, self.model or "")] if after and model != self.model else self.models
        return msgspec.structs.replace(self, model=model, models=models)


def change_between(before: Identity, after: Identity) -> Callable[[Identity], Identity]:
    """The change of exactly the fields in which they differ, for `Store.update`: a name or label that was changed
    meanwhile stays."""
    names = [name for name in Identity.__struct_fields__ if getattr(before, name) != getattr(after, name)]
    return partial(msgspec.structs.replace, **{name: getattr(after, name) for name in names})


class Head(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The position of a session. The store rewrites it in the same transaction as the step it follows from."""

    session: str
    seq: int = 0
    """the newest step"""
    head: int = 0
    """the checkpoint the next step builds on; less than `seq` right after a rewind"""
    digest: bytes = GENESIS
    """of the newest step"""
    since: int = 0
    """the reset that folding starts at; 0 for the beginning"""
    message_count: int = 0
    turns: int = 0
    open: tuple[OpenEffect, ...] = ()
    """visible intents without an outcome"""
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
    """time spent spawning or working in all attempts, up to the newest step"""
    size_bytes: int = 0
    """stored bytes of all own steps"""
    said: str | None = None
    """the first line of the agent's last text"""
    native: str | None = None
    """the native session that holds the same conversation; None if there is none"""
    handle: str | None = None
    """runtime handle it was started in, for runtimes that outlast a process (tmux, sandbox)"""
    updated_us: int = 0
    """when the newest step was committed"""
    ended_us: int | None = None
    epoch: int = 0
    """incremented by every claim; a write under an older one is refused"""
    lease: Lease | None = None
    queue_position: QueuePosition | None = msgspec.field(default=None, name="place")
    """its position whenever it is queued; None: no worker takes it"""


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A session to be created by the first step committed to it (sessions/pending_store.py), with its files."""

    identity: Identity
    head: Head
    """head at the checkpoint it starts from; all zero for a first run"""
    asked: str | None = None
    """the requested checkpoint, `ID@SEQ`; None for a first run"""
    files: dict[str, str] = {}
    """root name to the snapshot restored into the session's own new directory"""
    in_place: bool = False
    """the checkpoint's files are restored in the directory of the original session"""
