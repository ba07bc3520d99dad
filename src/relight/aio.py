"""The same verbs, awaited. No logic of its own: every call is the synchronous one, made in a thread.

One durable commit costs many times a thread hop, so nothing is lost by it, and there is no second copy to drift.
Coroutine functions given as model or tools run on the caller's event loop; a thread waits for them meanwhile.

    async with relight.aio.open() as rl:
        async with await rl.session("fix-login") as s:
            await s.append({"role": "user", "content": "..."})
            await relight.aio.loop(s, model=my_async_model, tools=[my_async_tool])
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final, Self

from relight.engine.library import Relight
from relight.engine.loop import loop as _loop
from relight.engine.session import Session, StepBlock
from relight.engine.tools import Tool, toolbox
from relight.wiring import open as _open

THREADS: Final = 64
"""calls under way at once; tools that block for long each hold one"""
_END: Final = object()
_threads = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="relight-aio")


async def _in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call it in a thread, in this task's context, and wrap what comes back."""
    context = contextvars.copy_context()
    bound = functools.partial(context.run, _on_loop_kept(function), *args, **kwargs)
    return _wrapped(await asyncio.get_running_loop().run_in_executor(_threads, bound))


def _on_loop_kept(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, knowing the loop that awaits it."""
    loop = asyncio.get_running_loop()

    def call(*args: Any, **kwargs: Any) -> Any:
        args = tuple(_blocking(value, loop) for value in args)
        return function(*args, **{key: _blocking(value, loop) for key, value in kwargs.items()})

    return call


def _blocking(value: Any, loop: asyncio.AbstractEventLoop) -> Any:
    """An argument as the synchronous side takes it: coroutine functions block, wrapped things are unwrapped."""
    if isinstance(value, AsyncSession | AsyncRelight):
        return value._sync
    if inspect.iscoroutinefunction(value):

        @functools.wraps(value)
        def wait(*args: Any, **kwargs: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(value(*args, **kwargs), loop).result()

        return wait
    return value


def _blocking_tools(tools: Any, loop: asyncio.AbstractEventLoop) -> dict[str, Tool]:
    """Tools whose functions, and probes, may be coroutine functions."""
    return {
        name: Tool(name=one.name, run=_blocking(one.run, loop), effect=one.effect, probe=_blocking(one.probe, loop))
        for name, one in toolbox(tools).items()
    }


def _wrapped(value: Any) -> Any:
    if isinstance(value, Session):
        return AsyncSession(value)
    if isinstance(value, Relight):
        return AsyncRelight(value)
    if isinstance(value, Iterator):
        return _steps_of(value)
    return value


async def _steps_of(values: Iterator[Any]) -> AsyncIterator[Any]:
    """An iterator whose every step is made in a thread."""
    while (value := await _in_thread(next, values, _END)) is not _END:
        yield value


class _Awaited:
    """Methods of the synchronous object, awaited; its plain attributes as they are."""

    _sync: Any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._sync, name)
        return functools.partial(_in_thread, found) if inspect.ismethod(found) else found


class AsyncSession(_Awaited):
    """An open session, awaited. Attributes (`messages`, `state`, `head`, ...) need no await: they read memory."""

    def __init__(self, session: Session) -> None:
        self._sync = session

    async def run_tool(self, call: Any, tools: Iterable[Any] | Mapping[str, Any]) -> Any:
        """As the synchronous one; coroutine functions run on this loop."""
        return await _in_thread(self._sync.run_tool, call, _blocking_tools(tools, asyncio.get_running_loop()))

    def step(self, label: str | None = None) -> AsyncStep:
        """`async with s.step("label"):` one commit for everything inside."""
        return AsyncStep(self._sync.step(label))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return bool(await _in_thread(self._sync.__exit__, kind, error, trace))


class AsyncStep:
    """A step block, awaited. Entering touches no store; leaving commits."""

    def __init__(self, block: StepBlock) -> None:
        self._block = block

    @property
    def checkpoint(self) -> Any:
        """The committed step, after the block."""
        return self._block.checkpoint

    async def __aenter__(self) -> Self:
        self._block.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._block.leave()
        await _in_thread(self._block.__exit__, kind, error, trace)


class AsyncRelight(_Awaited):
    """An open store, awaited."""

    def __init__(self, relight: Relight) -> None:
        self._sync = relight

    def tail(self, ref: str, *, after: int = 0, follow: bool = False) -> AsyncIterator[Any]:
        """Events, awaited one by one."""
        return _steps_of(_lazily(lambda: self._sync.tail(ref, after=after, follow=follow)))

    def sessions(self, **filters: Any) -> AsyncIterator[Any]:
        """Sessions, awaited one by one."""
        return _steps_of(_lazily(lambda: self._sync.sessions(**filters)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _in_thread(self._sync.close)


def _lazily(make: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    yield from make()


class _Opening:
    """`async with open()` and `await open()`."""

    def __init__(self, make: Callable[[], Relight]) -> None:
        self._make = make
        self._opened: AsyncRelight | None = None

    def __await__(self) -> Any:
        return self._open().__await__()

    async def _open(self) -> AsyncRelight:
        self._opened = await _in_thread(self._make)
        return self._opened

    async def __aenter__(self) -> AsyncRelight:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.close()


def open(url: str | os.PathLike[str] | None = None, **ports: Any) -> _Opening:
    """As `relight.open`, to be awaited or used with `async with`."""
    return _Opening(functools.partial(_open, url, **ports))


async def loop(s: AsyncSession, *, model: Callable[..., Any], tools: Any = None, **options: Any) -> Any:
    """As `relight.loop`; model and tools may be coroutine functions."""
    box = _blocking_tools(tools, asyncio.get_running_loop())
    return await _in_thread(_loop, s, model=model, tools=box, **options)
