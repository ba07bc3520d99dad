"""The execution context: everything one start of a session needs, in one frozen value.

It is built from the session's own record, so a resume of a resume has all that the first start had. Of secrets only
names are stored: their values come from the environment of the starting process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from relight.values.policy import RunPolicy
from relight.values.session import Head, Identity


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """One start, before it happens."""

    session: str
    agent: str
    command: tuple[str, ...]
    directory: str
    runtime: str
    handle: str
    """runtime handle to start it in; that of the attempt before, or the first 8 characters of the session's id"""
    had_handle: bool
    """whether an older process of this handle must be ended first"""
    native: str | None
    secrets: tuple[str, ...]
    policy: RunPolicy
    task: str | None
    prompt: str | None = None
    """the next prompt"""

    def missing(self, environment: Mapping[str, str]) -> list[str]:
        """Names of required fields and secrets that are missing."""
        fields = {"agent": self.agent, "command": self.command, "directory": self.directory, "runtime": self.runtime}
        return [name for name, value in fields.items() if not value] + [
            name for name in self.secrets if not environment.get(name)
        ]


def execution_of(
    identity: Identity, head: Head, *, command: Sequence[str] | None = None, prompt: str | None = None
) -> Execution:
    """Built from a session's record; `command`: with the secrets that the record does not hold."""
    return Execution(
        session=identity.id,
        agent=identity.agent or "command",
        command=tuple(command if command is not None else identity.command or ()),
        directory=identity.directory or "",
        runtime=identity.runtime or "process",
        handle=head.handle or identity.id[:8],
        had_handle=head.handle is not None,
        native=head.native,
        secrets=tuple(identity.secrets),
        policy=identity.policy,
        task=identity.task,
        prompt=prompt,
    )


Part = Literal["workspace", "runtime", "files", "transcript", "hooks", "start"]
"""the parts of a start that can fail"""
ResumeVerdict = Literal["progressed", "stranded", "looped"]


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a start."""

    session: str
    command: tuple[str, ...]
    """as it was launched"""
    handle: str
    rung: str
    prompt_sent: bool
    pid: int
    orphans: tuple[int, ...] = ()
    warning: str | None = None


def agent_of(program: str) -> str:
    """The agent's name: that of the program, without its version."""
    name = program.rstrip("/").rpartition("/")[2] or program
    return name.rstrip("-.0123456789") or name
