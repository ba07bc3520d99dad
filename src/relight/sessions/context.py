"""What every use case is given: the ports, bound once by the composition root."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from relight.journal.redaction.command_line import expanded
from relight.journal.redaction.recorded_fields import redacted
from relight.ports.agent import AgentAdapter, Agents
from relight.ports.clock import Clock, Entropy, Host
from relight.ports.hooks import HookChannel
from relight.ports.runtime import Runtime
from relight.ports.store import Store
from relight.ports.workspace import Workspaces
from relight.sessions.heartbeat import Heartbeat
from relight.sessions.redacting_store import ALL, REDACT_VARIABLE, Recording
from relight.sessions.running_effects import RunningEffects
from relight.values.session import Identity
from relight.values.step import Changes

if TYPE_CHECKING:
    from relight.journal.prices import Price
    from relight.journal.redaction.redactor import Redactor


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The seams of one open relight."""

    store: Store
    clock: Clock
    entropy: Entropy
    host: Host
    heartbeat: Heartbeat
    runtimes: Callable[[str, str, bool], Runtime]
    """by name, for a session, with or without network; see `runtime`"""
    agents: Agents
    """the translators of coding agents"""
    hooks: HookChannel
    """how running agents reach their supervisor"""
    redactor: Callable[[], Redactor]
    """takes secrets out of what is recorded"""
    declare_secrets: Callable[[Sequence[str]], None]
    """values of variables with these names are secrets from here on"""
    run_directory: Callable[[str], Path]
    """a private directory for what a running session needs beside the store; made when asked for"""
    run_directories: Callable[[], list[str]]
    """the sessions that have one"""
    remove_run_directory: Callable[[str], None]
    """with all that lies in it, homes of sandboxes included; no error where there is none"""
    write_private: Callable[[Path, bytes], None]
    """put a file there, whole or not at all, for the user's eyes alone"""
    environment: Mapping[str, str]
    """the variables of this process, which what is started inherits"""
    prices: Callable[[], Mapping[str, Price]]
    """prices of models that the user gave, above those of the table"""
    uses_library: Callable[[Sequence[str], str], bool]
    """does a command, started in this directory, show that its program imports this library?"""
    workspaces: Callable[[], Workspaces]
    """where the files of sessions are captured; asked for only by sessions that have some"""
    notify: Callable[[str], None]
    """one line for the person at the terminal; silent where hints are off"""
    sweep_in_background: Callable[[], None]
    """begin the sweep of the day in a process of its own, which outlives this one; nothing where a store has one
    process only"""
    inherited: dict[str, str]
    """what this process may open as its own, taken by the first opening, and who began it; see
    processes/inheritance.py
    """
    mark_as_program: Callable[[str], None]
    """this process is the program of that session from here on"""
    running_effects: RunningEffects = msgspec.field(default_factory=RunningEffects)
    """the effects that run in this process: `close` waits for their end, and nobody waits for `close`"""
    commands: dict[str, tuple[str, ...]]
    """by session: command lines as they were given to this process, where their record holds less than they do"""

    def queue_time_us(self) -> int:
        """Now, as lines count: the time of the store's server where there is one, so that machines whose clocks differ
        stand in one line and wake at one time. A server's instant is its own wall time."""
        if not hasattr(self.store, "place"):
            return self.clock.now_us()
        there = self.store.instant()
        return there.us if there.timeline != self.clock.instant().timeline else self.clock.now_us()

    def price(self, model: str | None) -> Price | None:
        """What a model's tokens cost; None: nobody said."""
        from relight.journal.prices import price_of  # who only looks at sessions does not wait for it

        return price_of(model, self.prices())

    def recording(self, identity: Identity) -> Recording:
        """What of a session is redacted before it is written: what is said about it; its data where that was asked for,
        and the conversation of a coding agent."""
        everything = identity.redact or self.environment.get(REDACT_VARIABLE) == ALL
        return Recording(self.redactor, data=everything or self.is_coding_agent(identity))

    def redacted_changes(self, changes: Changes) -> Changes:
        """Changes that hold nothing of the program's own, as they may be written."""
        return redacted(changes, self.redactor)

    def is_coding_agent(self, identity: Identity) -> bool:
        """Is it a coding agent that relight starts? Known by its name: nobody waits for its adapter."""
        return identity.command is not None and identity.agent in self.agents.names

    def command_of(self, identity: Identity) -> tuple[str, ...]:
        """What starts a session: as it was given here, else its record with the values of its variables."""
        given = self.commands.get(identity.id)
        return given or tuple(expanded(identity.command or (), identity.secrets, self.environment))

    def agent(self, identity: Identity) -> AgentAdapter:
        """Who translates for a session: by the command it was begun with, whatever its agent is called."""
        return self.agents.of(identity.command) if identity.command else self.agents.named("command")

    def runtime(self, identity: Identity | None = None) -> Runtime:
        """Where a session's program is started; without one, the plain runtime of this machine."""
        if identity is None:
            return self.runtimes("process", "", True)
        return self.runtimes(identity.runtime or "process", identity.id, identity.policy.network)
