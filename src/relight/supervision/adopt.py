"""Adopt: import a native session that was begun without relight. Its transcript file stays unchanged."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from functools import partial

import msgspec

from relight.errors import Ambiguous, Conflict, NotFound
from relight.history import listing
from relight.history.loading import resolve
from relight.operations.write_once import write_once
from relight.ports.agent import AgentAdapter, Surroundings
from relight.ports.store import Query
from relight.sessions.context import Context
from relight.sessions.opening import recorder_for
from relight.supervision import launch
from relight.values.checkpoint import at
from relight.values.options import RunOptions
from relight.values.session import Identity
from relight.values.status import StatusChange
from relight.values.step import Changes
from relight.values.usage import Usage


class Adoptable(msgspec.Struct, frozen=True, kw_only=True):
    """A native session that no session of this store has adopted."""

    agent: str
    native: str
    directory: str
    touched_at: datetime


def adopt(
    context: Context, native: str | None, *, directory: str, command: Sequence[str], name: str | None
) -> Identity:
    """Create a session from a native session. Without an id: from the only one begun in this directory."""
    surroundings = Surroundings(directory=directory, environment=context.environment)
    adapter, found = _found(context, native, surroundings, command)
    _refuse_twice(context, adapter, found)
    path = adapter.locate(found, surroundings)
    if path is None:
        raise NotFound(found, what=f"session of {adapter.name} that can be continued here")
    transcript = adapter.read(path)
    options = RunOptions(directory=directory, name=name, agent=adapter.name)
    made = launch.launch(context, command or [adapter.name], options)
    total = Usage()
    for entry in transcript.entries:
        total = total + entry.usage if entry.usage is not None else total
    identity = context.store.update(made.id, partial(msgspec.structs.replace, model=transcript.model))
    changes = Changes(
        messages=[entry.line for entry in transcript.entries],
        usage=total,
        native=found,
        status=StatusChange(status="terminated", reason=f"adopted from {adapter.name}"),
        note={"adopted": str(path), "torn_bytes": len(transcript.torn)},
    )
    write_once(context, recorder_for(context, resolve(context.store, made.id)), "message", changes)
    return identity


def adoptable(context: Context, directory: str) -> list[tuple[str, str]]:
    """(agent, native id) of the native sessions of this directory that are not adopted yet, newest first."""
    surroundings = Surroundings(directory=directory, environment=context.environment)
    return [
        (adapter.name, one)
        for adapter in context.agents.known()
        for one in adapter.sessions(surroundings)
        if _owner_of(context, adapter, one) is None
    ]


def found_here(context: Context, *, limit: int) -> list[Adoptable]:
    """Native sessions of this machine that are not adopted yet and whose directory exists, newest first."""
    surroundings = Surroundings(directory=os.getcwd(), environment=context.environment)
    offered = [
        (adapter.name, one)
        for adapter in context.agents.known()
        for one in adapter.everywhere(surroundings, most=limit)
    ]
    if not offered:
        return []
    records = listing.every_session(context.store, Query())
    ours = {record.head.native for record in records if record.head is not None and record.head.native}
    found = [
        Adoptable(agent=agent, native=one.native_id, directory=one.directory, touched_at=at(one.touched_us))
        for agent, one in offered
        if one.native_id not in ours and os.path.isdir(one.directory)
    ]
    return sorted(found, key=lambda one: one.touched_at, reverse=True)[:limit]


def _found(
    context: Context, native: str | None, surroundings: Surroundings, command: Sequence[str]
) -> tuple[AgentAdapter, str]:
    known = [context.agents.of(command)] if command else list(context.agents.known())
    if native is not None:
        holding = [one for one in known if one.locate(native, surroundings) is not None]
        if not holding:
            agents = " or ".join(one.name for one in known)
            what = f"session of {agents} begun in this directory"
            raise NotFound(native, what=what, hints=["go to the directory it was begun in, then: relight adopt"])
        return holding[0], native
    offered = adoptable(context, surroundings.directory)
    if not offered:
        hints = ["go to the directory it was begun in; variables that move an agent's own directory are respected"]
        raise NotFound(surroundings.directory, what="session of a coding agent", hints=hints)
    if len(offered) > 1:
        raise Ambiguous("adopt", candidates=[f"{one}  {agent}" for agent, one in offered])
    return context.agents.named(offered[0][0]), offered[0][1]


def _refuse_twice(context: Context, adapter: AgentAdapter, native: str) -> None:
    owner = _owner_of(context, adapter, native)
    if owner is not None:
        name = owner.name or owner.id[:8]
        raise Conflict(f"{native} is session {name} already", hints=[f"continue it: relight resume {name}"])


def _owner_of(context: Context, adapter: AgentAdapter, native: str) -> Identity | None:
    for record in listing.every_session(context.store, Query(agent=adapter.name)):
        if record.head is not None and record.head.native == native and record.head.status != "archived":
            return record.identity
    return None
