"""The same API, awaited. No logic of its own: every call is the synchronous one, driven from the event loop.

Coroutine functions given as model, tool, probe or to `once` run as tasks of the caller's event loop. Store calls and
plain functions run in threads (event_loop.py), so nothing here blocks the loop.

    async with relight.aio.open() as rl:
        async with await rl.session("fix-login") as s:
            await s.append({"role": "user", "content": "..."})
            await s.run(my_async_model, tools=[my_async_tool])

Cancelling, and `asyncio.timeout`, cancel the coroutine and await its end. A tool that is a plain function cannot be
stopped: the caller continues, and the session keeps its lease until the tool has ended and its outcome is recorded.
What began and has no outcome is in doubt, as after a crash.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from datetime import datetime
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar, Unpack

from relight.event_loop import Abandoned, alone, awaited, stored
from relight.history.events import POLL_SECONDS, Event, poll_events
from relight.history.loading import resolve
from relight.library.facade import Relight
from relight.library.sessions import Sessions
from relight.sessions.calls import effects, timers
from relight.sessions.calls.tools import Tools, toolbox
from relight.sessions.entry import children as family
from relight.sessions.entry.options import SessionOptions
from relight.sessions.session import BatchBlock, Session, writer_of
from relight.sessions.turns.loop import OpenCall, Turn, TurnReply, run_program
from relight.values.call import Call
from relight.values.checkpoint import Checkpoint
from relight.values.policy import Retry
from relight.values.status import Status
from relight.values.usage import Usage
from relight.wiring import open as _open

_P = ParamSpec("_P")
_T = TypeVar("_T")
_END: Final = object()
_RETRY: Final = Retry()


def _unwrapped(value: Any) -> Any:
    return value._sync if isinstance(value, AsyncSession | AsyncRelight) else value


def _wrapped(value: Any) -> Any:
    if isinstance(value, Session):
        return AsyncSession(value)
    if isinstance(value, Relight):
        return AsyncRelight(value)
    if isinstance(value, Iterator):
        return _each(value)
    return value


async def _each(values: Iterator[Any]) -> AsyncIterator[Any]:
    """An asynchronous iterator whose steps run in a thread; None, while following, means to wait a moment."""
    try:
        while (value := await stored(functools.partial(next, values, _END))) is not _END:
            if value is None:
                await asyncio.sleep(POLL_SECONDS)
            else:
                yield value
    finally:
        if isinstance(values, Generator):
            # A caller that leaves the loop early would otherwise leave a generator with an open read transaction to the
            # garbage collector.
            await stored(values.close, always=True)


def _quick(method: Callable[Concatenate[Any, _P], _T]) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]]:
    """A method that does bounded work, awaited."""

    @functools.wraps(method)
    async def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await stored(functools.partial(method, self._sync, *args, **kwargs))

    return call


def _long(method: Callable[Concatenate[Any, _P], _T]) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]]:
    """A method that may take long, awaited. A cancelled caller stops waiting; the method runs to its end."""

    @functools.wraps(method)
    async def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        work = functools.partial(method, self._sync, *args, **kwargs)
        return await alone(work, self._sync._context.running_effects)

    return call


def _lazily(make: Callable[[], Iterator[_T]]) -> Iterator[_T]:
    yield from make()


class _Awaited:
    """Forwards everything not defined below: methods awaited, plain attributes as they are."""

    _sync: Any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._sync, name)
        if not inspect.ismethod(found):
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            given = {key: _unwrapped(value) for key, value in kwargs.items()}
            work = functools.partial(found, *map(_unwrapped, args), **given)
            return _wrapped(await alone(work, self._sync._context.running_effects))

        return call


class AsyncSession(_Awaited):
    """An open session, awaited. Attributes (`messages`, `state`, `head`, ...) need no await: they read memory."""

    def __init__(self, session: Session) -> None:
        self._sync = session
        writer_of(session).is_async = True
        self._abandoned = Abandoned()

    append = _quick(Session.append)
    checkpoint = _quick(Session.checkpoint)
    partial = _quick(Session.partial)
    prompt = _quick(Session.prompt)
    replace = _quick(Session.replace)
    settle = _quick(Session.settle)
    ask = _quick(Session.ask)
    complete = _quick(Session.complete)
    fail = _quick(Session.fail)
    halt = _quick(Session.halt)
    calls = _quick(Session.calls)
    pending_calls = _quick(Session.pending_calls)
    snapshot = _long(Session.snapshot)
    children = _quick(Session.children)

    @property
    def id(self) -> str:
        """32 hexadecimal characters; never changes."""
        return self._session.id

    @property
    def name(self) -> str | None:
        """The name it was opened under, if any."""
        return self._session.name

    @property
    def head(self) -> str:
        """The checkpoint the next step builds on, `<id>@<seq>`."""
        return self._session.head

    @property
    def status(self) -> Status:
        """The status as stored; `rl.sessions.get` derives the one to show."""
        return self._session.status

    @property
    def is_new(self) -> bool:
        """True until a message is committed."""
        return self._session.is_new

    @property
    def is_finished(self) -> bool:
        """Whether a verdict (`completed`, `failed`, `halted`) is recorded."""
        return self._session.is_finished

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation in the provider's own form. A new list; the messages in it are not copies."""
        return self._session.messages

    @property
    def usage(self) -> Usage:
        """Usage of all attempts together; each reply is counted once."""
        return self._session.usage

    @property
    def _session(self) -> Session:
        session: Session = self._sync
        return session

    async def run_tool(self, call: Call, tools: Tools) -> Call:
        """Commit the intent, run the tool, commit its result. A call in doubt is handled as its effect allows."""
        return await awaited(effects.run_tool(writer_of(self._session), call, toolbox(tools)), self._abandoned)

    async def sleep(
        self, seconds: float | None = None, *, until: datetime | float | None = None, key: str | None = None
    ) -> None:
        """A durable pause: the wake-up time is committed first, and after a death only the rest of it is slept."""
        await awaited(timers.sleep(writer_of(self._session), seconds, until, key), self._abandoned)

    async def once(self, key: str, function: Callable[[], Any]) -> Any:
        """Run a side effect at most once in the life of this session; later calls return the recorded result."""
        return await awaited(effects.once(writer_of(self._session), key, function), self._abandoned)

    async def run(self, model: Callable[..., Any], *, retry: Retry = _RETRY, **options: Any) -> Any:
        """Ask the model and run its calls until it requests no more; returns the session's result."""
        await self._abandoned.ended()  # an effect of a cancelled call may still run, and must not begin twice
        turns = self._session.turns(**{"tools": (), **options})
        return await awaited(run_program(turns, model, retry), self._abandoned)

    async def turns(self, tools: Tools | None = None, **options: Any) -> AsyncIterator[AsyncTurn]:
        """The loop of `run` by hand: `async for turn in s.turns(tools): await turn.reply(await ask(s.messages))`."""
        await self._abandoned.ended()
        turns = self._session.turns(tools, **options)
        while (turn := await awaited(turns.advance(), self._abandoned)) is not None:
            yield AsyncTurn(turn, self._abandoned)

    def batch(self, label: str | None = None) -> AsyncBatch:
        """`async with s.batch("label"):` commits everything inside as one step."""
        return AsyncBatch(self._session.batch(label))

    async def spawn(self, name: str, **options: Unpack[SessionOptions]) -> AsyncSession:
        """Open a child of this session: new, or exactly where it stopped. One opened for a cancelled caller is closed
        again."""
        return AsyncSession(await stored(functools.partial(self._session.spawn, name, **options), undo=_leave_unused))

    async def join(self, *named: AsyncSession | family.Named, timeout: float | None = None) -> list[Any]:
        """Wait until these children have ended (without names: all), and return their results in this order."""
        given = [_unwrapped(one) for one in named]
        return await awaited(family.join(writer_of(self._session), given, timeout), self._abandoned)

    async def close(self) -> None:
        """Leave the block without a verdict: `terminated`, reason "left"; the next opening continues."""
        await stored(self._session.close, always=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await stored(functools.partial(self._session.__exit__, kind, error, trace), always=True)


class AsyncTurn:
    """One turn of the model, awaited."""

    def __init__(self, turn: Turn, abandoned: Abandoned) -> None:
        self._turn, self._abandoned = turn, abandoned
        self.number = turn.number

    async def reply(self, returned: Any) -> AsyncTurnReply:
        """Commit what the model returned: whatever a model function of `s.run` may return."""
        return AsyncTurnReply(await stored(functools.partial(self._turn.reply, returned)), self._abandoned)


class AsyncTurnReply:
    """A reply that is committed; its calls are awaited."""

    def __init__(self, reply: TurnReply, abandoned: Abandoned) -> None:
        self.text = reply.text
        self.calls = [AsyncOpenCall(call, abandoned) for call in reply.calls]


class AsyncOpenCall:
    """A call that a reply requests, to be run now."""

    def __init__(self, call: OpenCall, abandoned: Abandoned) -> None:
        self._open, self._abandoned = call, abandoned
        self.call = call.call

    async def run(self) -> Call:
        """Run it with the tools of the turns, and commit its result."""
        return await awaited(self._open.program(), self._abandoned)


class AsyncBatch:
    """A batch, awaited. Entering does not touch the store; leaving commits."""

    def __init__(self, block: BatchBlock) -> None:
        self._block = block

    @property
    def checkpoint(self) -> Checkpoint:
        """The step that the block is committed as, exact once it has ended; none was written if the block raised."""
        return self._block.checkpoint

    async def __aenter__(self) -> Self:
        self._block.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._block.leave()
        await stored(functools.partial(self._block.__exit__, kind, error, trace), always=True)


def _leave_unused(session: Session) -> None:
    error = asyncio.CancelledError()
    session.__exit__(type(error), error, None)


class AsyncNoun(_Awaited):
    """One noun of an open store, awaited; verbs that iterate are used with `async for`."""

    def __init__(self, noun: Any) -> None:
        self._sync = noun

    def list(self, **options: Any) -> Any:
        """Sessions, newest first: `async for`. Of queues: to be awaited."""
        if isinstance(self._sync, Sessions):
            return _each(_lazily(lambda: self._sync.list(**options)))
        return alone(functools.partial(self._sync.list, **options), self._sync._context.running_effects)

    def events(
        self, ref: str, *, after: int = 0, upto: int | None = None, follow: bool = False
    ) -> AsyncIterator[Event]:
        """Steps as events: after < seq <= upto; with `follow` each further one until the session ends."""
        if not follow:
            return _each(_lazily(lambda: self._sync.events(ref, after=after, upto=upto)))
        context = self._sync._context
        return _each(_lazily(lambda: poll_events(context, resolve(context.store, ref), after=after)))


class AsyncRelight(_Awaited):
    """An open store, awaited."""

    def __init__(self, relight: Relight) -> None:
        self._sync = relight
        self.sessions, self.history, self.files = map(AsyncNoun, (relight.sessions, relight.history, relight.files))
        self.runs, self.queues, self.admin = map(AsyncNoun, (relight.runs, relight.queues, relight.admin))

    async def session(
        self,
        name: str,
        *,
        wait: float | None = None,
        resume: bool = True,
        parent: AsyncSession | str | None = None,
        **options: Unpack[SessionOptions],
    ) -> AsyncSession:
        """Like `Relight.session`. A session that is opened for a cancelled caller is closed again."""
        program = self._sync._opening(name, wait, resume, _unwrapped(parent), options)
        return AsyncSession(await awaited(program, Abandoned(), undo=_leave_unused))

    async def close(self) -> None:
        """Stop the heartbeat and close the store; if a tool still runs in a thread, when it ends."""
        await stored(self._sync.close, always=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class _Opening:
    """Supports both `async with open()` and `await open()`."""

    def __init__(self, make: Callable[[], Relight]) -> None:
        self._make = make
        self._opened: AsyncRelight | None = None

    def __await__(self) -> Generator[Any, None, AsyncRelight]:
        return self._open().__await__()

    async def _open(self) -> AsyncRelight:
        self._opened = AsyncRelight(await stored(self._make, undo=Relight.close))
        return self._opened

    async def __aenter__(self) -> AsyncRelight:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.close()


def open(url: str | os.PathLike[str] | None = None, **ports: Any) -> _Opening:
    """Like `relight.open`, to be awaited or used with `async with`."""
    return _Opening(functools.partial(_open, url, **ports))
