"""The same API, awaited. No logic of its own: every call is the synchronous one, driven from the event loop.

The nouns and most of a session are generated (`relight.awaited`). Here is what runs the user's own functions, or gives
another object.

Coroutine functions given as model, tool, probe or to `once` run as tasks of the caller's event loop. Store calls and
plain functions run in threads (event_loop.py), so nothing here blocks the loop.

    async with relight.aio.session("fix-login") as s:
        await s.run(my_async_model, tools=[my_async_tool], prompt="...")

Cancelling, and `asyncio.timeout`, cancel the coroutine and await its end. A tool that is a plain function cannot be
stopped: the caller continues, and the session keeps its lease until the tool has ended and its outcome is recorded.
What began and has no outcome is in doubt, as after a crash.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, Unpack

from relight.awaited.admin import AsyncAdmin
from relight.awaited.files import AsyncFiles
from relight.awaited.history import AsyncHistory
from relight.awaited.queues import AsyncQueues
from relight.awaited.runs import AsyncRuns
from relight.awaited.session import SessionForm
from relight.awaited.sessions import AsyncSessions
from relight.event_loop import Abandoned, awaited, committed, stored
from relight.library.facade import Relight
from relight.ports.clock import Clock, Entropy, Host
from relight.ports.store import Store
from relight.sessions.calls import effects, timers
from relight.sessions.calls.tools import Tools, toolbox
from relight.sessions.entry import children as family
from relight.sessions.entry.options import SessionOptions
from relight.sessions.inputs import SdkObject
from relight.sessions.model_calls import received_async
from relight.sessions.session import BatchBlock, Session, writer_of
from relight.sessions.turns.loop import InDoubt, OpenCall, Turn, TurnReply, run_program
from relight.sessions.turns.stream import Stream
from relight.shared_handles import HANDLES
from relight.values.call import Call
from relight.values.checkpoint import Checkpoint
from relight.values.policy import MAX_TURNS, PARALLEL, LoopGuard, Retry
from relight.values.usage import Usage
from relight.wiring import open as _open

_RETRY: Final = Retry()
_GUARD: Final = LoopGuard()


class AsyncSession(SessionForm):
    """An open session, awaited. Attributes (`messages`, `state`, `head`, ...) need no await: they read memory."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        writer_of(session).is_async = True
        self._abandoned = Abandoned()

    async def run_tool(self, call: Call, tools: Tools) -> Call:
        """Commit the intent, run the tool, commit its result. A call in doubt is handled as its effect allows."""
        return await awaited(effects.run_tool(writer_of(self._sync), call, toolbox(tools)), self._abandoned)

    async def append(
        self,
        message: Mapping[str, Any] | Sequence[Any] | SdkObject,
        usage: Usage | Mapping[str, Any] | SdkObject | None = None,
    ) -> Checkpoint:
        """Commit a message, the items of one reply, or what a provider's SDK returned (with its usage) as one step.
        Inside `batch()` it is part of that step."""
        return await committed(self._sync._appending(message, usage), writer_of(self._sync))

    async def sleep(
        self, seconds: float | None = None, *, until: datetime | float | None = None, key: str | None = None
    ) -> None:
        """A durable pause: the wake-up time is committed first, and after a death only the rest of it is slept."""
        await awaited(timers.sleep(writer_of(self._sync), seconds, until, key), self._abandoned)

    async def once(self, key: str, function: Callable[[], Any]) -> Any:
        """Run a side effect at most once in the life of this session; later calls return the recorded result."""
        return await awaited(effects.once(writer_of(self._sync), key, function), self._abandoned)

    async def run(
        self,
        model: Callable[..., Any],
        *,
        tools: Tools = (),
        prompt: str | None = None,
        prompt_id: str | None = None,
        max_turns: int = MAX_TURNS,
        parallel: int = PARALLEL,
        in_doubt: InDoubt = "tell",
        retry: Retry = _RETRY,
        guard: LoopGuard = _GUARD,
    ) -> Any:
        """Ask the model and run its calls until it requests no more; returns the session's result."""
        await self._abandoned.ended()  # an effect of a cancelled call may still run, and must not begin twice
        turns = self._sync.turns(
            tools,
            prompt=prompt,
            prompt_id=prompt_id,
            max_turns=max_turns,
            parallel=parallel,
            in_doubt=in_doubt,
            guard=guard,
        )
        return await awaited(run_program(turns, model, retry), self._abandoned)

    async def turns(
        self,
        tools: Tools | None = None,
        *,
        prompt: str | None = None,
        prompt_id: str | None = None,
        max_turns: int = MAX_TURNS,
        parallel: int = PARALLEL,
        in_doubt: InDoubt = "tell",
        guard: LoopGuard = _GUARD,
    ) -> AsyncIterator[AsyncTurn]:
        """The loop of `run` by hand: `async for turn in s.turns(tools): await turn.reply(await ask(s.messages))`."""
        await self._abandoned.ended()
        turns = self._sync.turns(
            tools,
            prompt=prompt,
            prompt_id=prompt_id,
            max_turns=max_turns,
            parallel=parallel,
            in_doubt=in_doubt,
            guard=guard,
        )
        while (turn := await awaited(turns.advance(), self._abandoned)) is not None:
            yield AsyncTurn(turn, self._abandoned)

    def stream(self) -> AsyncStream:
        """A block for the text of a reply in progress: `async with s.stream() as out: await out.write(text)`."""
        return AsyncStream(self._sync.stream())

    def batch(self, label: str | None = None) -> AsyncBatch:
        """`async with s.batch("label"):` commits everything inside as one step."""
        return AsyncBatch(self._sync.batch(label))

    def spawn(
        self, name: str, *, wait: float | None = None, **options: Unpack[SessionOptions]
    ) -> Opening[AsyncSession]:
        """Open a child of this session: new, or exactly where it stopped. One opened for a cancelled caller is closed
        again."""

        async def opened() -> AsyncSession:
            program = self._sync._spawning(name, wait, options)
            return AsyncSession(await awaited(program, self._abandoned, undo=_leave_unused))

        return Opening(f"child {name}", opened)

    async def join(self, *named: AsyncSession | family.Named, timeout: float | None = None) -> list[Any]:
        """Wait until these children have ended (without names: all), and return their results in this order."""
        given = [one._sync if isinstance(one, AsyncSession) else one for one in named]
        return await awaited(family.join(writer_of(self._sync), given, timeout), self._abandoned)

    async def close(self) -> None:
        """Leave the block without a verdict: `terminated`, reason "left"; the next opening continues."""
        await stored(self._sync.close, always=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await stored(functools.partial(self._sync.__exit__, kind, error, trace), always=True)


class AsyncTurn:
    """One turn of the model, awaited."""

    def __init__(self, turn: Turn, abandoned: Abandoned) -> None:
        self._turn, self._abandoned = turn, abandoned
        self.number = turn.number

    async def reply(self, returned: Any) -> AsyncTurnReply:
        """Commit what the model returned: whatever a model function of `s.run` may return."""
        reply = functools.partial(self._turn.reply, await received_async(returned))
        return AsyncTurnReply(await stored(reply), self._abandoned)


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


class AsyncStream:
    """The text of a reply in progress, awaited."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __repr__(self) -> str:
        return f"{self._stream!r}, awaited"

    async def write(self, text: str) -> None:
        """Add text. It is committed with what waits once that is a second old or 4 kB long."""
        await stored(functools.partial(self._stream.write, text))

    async def __aenter__(self) -> Self:
        self._stream.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await stored(functools.partial(self._stream.__exit__, kind, error, trace), always=True)


class AsyncBatch:
    """A batch, awaited. Entering does not touch the store; leaving commits."""

    def __init__(self, block: BatchBlock) -> None:
        self._block = block

    def __repr__(self) -> str:
        return f"{self._block!r}, awaited"

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


class AsyncRelight:
    """An open store, awaited: `session` opens one, the nouns have all other verbs."""

    def __init__(self, relight: Relight) -> None:
        self._sync = relight
        self.sessions = AsyncSessions(relight.sessions)
        self.history = AsyncHistory(relight.history)
        self.files = AsyncFiles(relight.files)
        self.runs = AsyncRuns(relight.runs)
        self.queues = AsyncQueues(relight.queues)
        self.admin = AsyncAdmin(relight.admin)

    def __repr__(self) -> str:
        return f"{self._sync!r}, awaited"

    @property
    def store(self) -> Store:
        """The underlying store, without the redacting wrapper; its calls block."""
        return self._sync.store

    def session(
        self,
        name: str,
        *,
        wait: float | None = None,
        resume: bool = True,
        parent: AsyncSession | str | None = None,
        **options: Unpack[SessionOptions],
    ) -> Opening[AsyncSession]:
        """Like `Relight.session`, with `async with` or awaited. One opened for a cancelled caller is closed again."""
        return Opening(f"session {name}", functools.partial(_session, self._sync, name, wait, resume, parent, options))

    async def close(self) -> None:
        """Stop the heartbeat and close the store; if a tool still runs in a thread, when it ends."""
        await stored(self._sync.close, always=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def _session(
    rl: Relight, name: str, wait: float | None, resume: bool, parent: AsyncSession | str | None, options: SessionOptions
) -> AsyncSession:
    of = parent._sync if isinstance(parent, AsyncSession) else parent
    program = rl._opening(name, wait, resume, of, options)
    return AsyncSession(await awaited(program, Abandoned(), undo=_leave_unused))


_T = TypeVar("_T", bound=AsyncSession | AsyncRelight)


class Opening(Generic[_T]):
    """Something that is being opened: for `async with`, or to be awaited."""

    def __init__(self, what: str, make: Callable[[], Coroutine[Any, Any, _T]]) -> None:
        self._what, self._make = what, make
        self._opened: _T | None = None

    def __repr__(self) -> str:
        return f"<relight {self._what}, not opened yet: use async with, or await it>"

    if not TYPE_CHECKING:  # a checker knows that nothing else is here

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"{self!r}, has no {name!r}", name=name, obj=self)

    def __await__(self) -> Generator[Any, None, _T]:
        return self._make().__await__()

    async def __aenter__(self) -> _T:
        self._opened = await self._make()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._opened is not None, "set on entry"
        await self._opened.__aexit__(kind, error, trace)


def open(
    url: str | os.PathLike[str] | Store | None = None,
    *,
    clock: Clock | None = None,
    entropy: Entropy | None = None,
    host: Host | None = None,
    create: bool = True,
    ready: bool = True,
    durability: str | None = None,
) -> Opening[AsyncRelight]:
    """Like `relight.open`, with `async with` or awaited."""
    make = functools.partial(
        _open, url, clock=clock, entropy=entropy, host=host, create=create, ready=ready, durability=durability
    )

    async def opened() -> AsyncRelight:
        return AsyncRelight(await stored(make, undo=Relight.close))

    return Opening("store", opened)


def session(
    name: str,
    *,
    store: str | os.PathLike[str] | None = None,
    wait: float | None = None,
    resume: bool = True,
    parent: AsyncSession | str | None = None,
    **options: Unpack[SessionOptions],
) -> Opening[AsyncSession]:
    """Like `relight.session`, with `async with` or awaited."""

    async def opened() -> AsyncSession:
        rl = await stored(functools.partial(HANDLES.get, store))
        return await _session(rl, name, wait, resume, parent, options)

    return Opening(f"session {name}", opened)
