"""What a type checker sees in both forms: a typo, a wrong literal, a missing await.

Checked by mypy and by pyright, in `make check`: each line is wrong, and one that either of them accepted would have an
unused `ignore`, which is an error.
"""

from __future__ import annotations

from typing import Any, assert_type

import relight
from relight.aio import AsyncRelight, AsyncSession
from relight.types import Checkpoint, Event, ResumePlan, SessionInfo


def sync(rl: relight.Relight, s: relight.Session) -> None:
    """The plain form."""
    s.apend({})  # type: ignore[attr-defined]
    rl.sessions.gte("a")  # type: ignore[attr-defined]
    rl.sessions.list(status="asleep")  # type: ignore[arg-type]
    rl.history.planned_calls("a", after="sleep")  # type: ignore[arg-type]
    rl.session("a", wait="long")  # type: ignore[arg-type]
    relight.session("a", agnet="x")  # type: ignore[call-arg]
    _ = rl.runs.plan("a").okay  # type: ignore[attr-defined]
    s.run(print, in_doubt="guess")  # type: ignore[arg-type]
    days: int = s.ask("How many days?")  # type: ignore[assignment]
    _ = days, s.ask("Ship?").uper()  # type: ignore[union-attr]


async def awaited(rl: AsyncRelight, s: AsyncSession) -> None:
    """The awaited form: the same, and what is not awaited."""
    await s.apend({})  # type: ignore[attr-defined]
    await rl.sessions.gte("a")  # type: ignore[attr-defined]
    rl.sessions.list(status="asleep")  # type: ignore[arg-type]
    await rl.history.planned_calls("a", after="sleep")  # type: ignore[arg-type]
    rl.session("a", wait="long")  # type: ignore[arg-type]
    relight.aio.session("a", agnet="x")  # type: ignore[call-arg]
    _ = (await rl.runs.plan("a")).okay  # type: ignore[attr-defined]
    await s.run(print, in_doubt="guess")  # type: ignore[arg-type]
    days: int = await s.ask("How many days?")  # type: ignore[assignment]
    _ = days, s.append({}).id  # type: ignore[attr-defined]
    s.complete()  # type: ignore[unused-coroutine]
    _ = rl.sessions.get("a").status  # type: ignore[attr-defined]
    rl.session("a").append({})  # type: ignore[attr-defined]
    for _ in rl.sessions.list():  # type: ignore[attr-defined]
        pass


async def types(rl: AsyncRelight, s: AsyncSession) -> None:
    """What is right has the type that the sync form has."""
    assert_type(await rl.sessions.get("a"), SessionInfo)
    assert_type(await rl.session("a", lease_seconds=3.0), AsyncSession)
    assert_type(await s.append({}), Checkpoint)
    assert_type(await rl.runs.plan("a"), ResumePlan)
    assert_type(s.messages, list[dict[str, Any]])
    answer: str = await s.ask("Ship?", choices=["yes", "no"])
    unless: str | None = await s.ask("Ship?", timeout=60, default=None)
    _ = answer, unless
    async with relight.aio.session("a") as opened:
        assert_type(opened, AsyncSession)
    async for event in rl.history.events("a", follow=True):
        assert_type(event, Event)
