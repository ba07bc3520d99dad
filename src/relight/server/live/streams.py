"""Events as they happen, to any number of clients, from one follower.

One thread follows the store. What it reads of a session is encoded once and put into that session's ring, and every
client of it is only a number: the seq it has. Whoever is inside the ring takes from it; whoever is further behind, also
after a reconnect, reads the journal by pages. So a client has no queue that could fill, a slow one costs a socket
buffer and is dropped when it takes nothing for too long, and no client can slow a session down.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, takewhile
from typing import Any, Final

import msgspec

from relight.errors import Corrupt, NotFound, RelightError
from relight.history.documents import encoded
from relight.history.events import Event
from relight.library.facade import Relight
from relight.server.http.logs import LOG
from relight.server.http.refusals import TooMany
from relight.server.live.overview import Overview
from relight.server.metrics import Metrics
from relight.server.settings import ServerSettings

_PAGE: Final = 200
_RING_BYTES: Final = 4 * 1024 * 1024
_EVENT_BYTES: Final = 256 * 1024
_LOOK_ANYWAY: Final = 10
_READERS: Final = 4
_REST_SECONDS: Final = 1.0
_END_SECONDS: Final = 5.0
HEARTBEAT: Final = b": still here\n\n"
RETRY: Final = b"retry: 2000\n\n"


class Topic:
    """What is told of one session, or of all of them. Changed on the loop only."""

    def __init__(self, newest: int, most: int) -> None:
        self.newest = newest
        self.clients = 0
        self.over: str | None = None
        """why nothing more will come"""
        self._ring: deque[tuple[int, bytes]] = deque()
        self._most = most
        self._bytes = 0
        self._since = newest
        """the ring holds everything after this"""
        self._news = asyncio.Event()

    def put(self, frames: Iterable[tuple[int, bytes]]) -> None:
        """More has happened."""
        for number, frame in frames:
            if number <= self.newest:
                continue
            self._ring.append((number, frame))
            self._bytes += len(frame)
            self.newest = number
        while self._ring and (len(self._ring) > self._most or self._bytes > _RING_BYTES):
            number, frame = self._ring.popleft()
            self._bytes -= len(frame)
            self._since = number
        self._wake()

    def end(self, why: str) -> None:
        """Nothing more will come."""
        self.over = why
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def after(self, number: int) -> list[tuple[int, bytes]] | None:
        """What came after it; None where the ring does not reach back so far."""
        if number < self._since:
            return None
        newer = list(takewhile(lambda one: one[0] > number, reversed(self._ring)))
        newer.reverse()
        return newer

    async def news(self, seconds: float) -> bool:
        """Wait for more; False where nothing came in this time."""
        waiting = self._news
        try:
            async with asyncio.timeout(seconds):
                await waiting.wait()
        except TimeoutError:
            return False
        return True


class Hub:
    """The one follower, and the topics it feeds."""

    def __init__(self, rl: Relight, settings: ServerSettings, metrics: Metrics) -> None:
        self._rl, self._settings, self._metrics = rl, settings, metrics
        self._topics: dict[str, Topic] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="relight-replay")
        self._clients = 0
        self.run = secrets.token_hex(4)
        """of this server: numbers of the general stream mean nothing to another"""
        self._all = Topic(0, settings.ring)
        self._overview = Overview(rl, metrics)
        self.looks = 0
        """how often all sessions were looked at"""

    # -- life -----------------------------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to follow."""
        self._loop = loop
        self._thread = threading.Thread(target=self._follow, name="relight-follow", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End every stream, so that the server can end."""
        self._stopping.set()
        for topic in [self._all, *self._topics.values()]:
            topic.end("the server ends")
        self._readers.shutdown(wait=False)

    def join(self) -> None:
        """Until the follower has ended."""
        if self._thread is not None:
            self._thread.join(_END_SECONDS)

    # -- the follower ---------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        token, idle = object(), 0
        while not self._stopping.wait(self._settings.poll_seconds):
            idle += 1
            try:
                now: object = self._rl.store.changed()
                if now == token and idle < _LOOK_ANYWAY:
                    continue
                token, idle = now, 0
                for session, topic in list(self._topics.items()):
                    self._look(session, topic)
                frames = [self._overview_frame(*one) for one in self._overview.look()]
                self.looks += 1
                if frames:
                    self._on_loop(self._all.put, frames)
            except RelightError as error:
                LOG.warning("follow", extra={"code": error.code, "said": str(error)[:200]})
                self._stopping.wait(_REST_SECONDS)
            except Exception:  # no stream would ever hear anything again
                if self._loop is None or self._loop.is_closed():
                    return
                LOG.exception("follow")
                self._stopping.wait(_REST_SECONDS)

    def _look(self, session: str, topic: Topic) -> None:
        if not topic.clients:
            return
        try:
            frames = self._frames(session, topic.newest)
        except NotFound:
            self._on_loop(topic.end, "removed")
            return
        except Corrupt as error:  # it is told to who listens to it, and hinders nobody else
            self._on_loop(topic.end, _damaged(error))
            return
        if frames:
            self._on_loop(topic.put, frames)

    def _frames(self, session: str, after: int, upto: int | None = None) -> list[tuple[int, bytes]]:
        """The next steps, as far as they can be read; Corrupt where the very next one cannot."""
        frames: list[tuple[int, bytes]] = []
        try:
            for event in islice(self._rl.steps(session, after=after, upto=upto), _PAGE):
                frames.append(frame_of(event))
        except Corrupt:
            if not frames:
                raise
        return frames

    def _on_loop(self, function: Callable[..., Any], *values: Any) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(function, *values)

    def _overview_frame(self, number: int, kind: str, document: Any) -> tuple[int, bytes]:
        body = encoded(document)
        return number, b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (self.run.encode(), number, kind.encode(), body)

    # -- the clients ----------------------------------------------------------------------------------------------

    async def session(self, session: str, after: int | None) -> AsyncIterator[bytes]:
        """The steps of a session after a seq that it has, then each new one. `session` is a full id."""
        topic = await self._joined(session)
        sent = topic.newest if after is None else after
        try:
            yield RETRY
            while True:
                frames = topic.after(sent)
                if frames is None:
                    try:
                        frames = await self._page(session, sent, topic.newest)
                    except Corrupt as error:
                        yield _over(_damaged(error))
                        return
                for number, frame in frames:
                    yield frame
                    sent = number
                if frames:
                    continue
                if topic.over is not None:
                    yield _over(topic.over)
                    return
                if not await topic.news(self._settings.heartbeat_seconds):
                    yield HEARTBEAT
        finally:
            self._left(session, topic)

    async def everything(self, last: str | None) -> AsyncIterator[bytes]:
        """Status and attention of all sessions as they change. Who missed more than the ring holds has to reload."""
        self._count(1)
        topic = self._all
        sent = topic.newest
        try:
            yield RETRY
            if last is not None:
                run, _, number = last.partition("-")
                ours = run == self.run and number.isascii() and number.isdigit()
                missed = topic.after(int(number)) if ours else None
                if missed is None:
                    yield b"id: %s-%d\nevent: reload\ndata: {}\n\n" % (self.run.encode(), sent)
                else:
                    sent = min(int(number), sent)
            while True:
                frames = topic.after(sent)
                if frames is None:
                    sent = topic.newest
                    yield b"id: %s-%d\nevent: reload\ndata: {}\n\n" % (self.run.encode(), sent)
                for number_, frame in frames or ():
                    yield frame
                    sent = number_
                if topic.over is not None:
                    yield _over(topic.over)
                    return
                if not frames and not await topic.news(self._settings.heartbeat_seconds):
                    yield HEARTBEAT
        finally:
            self._count(-1)

    async def _joined(self, session: str) -> Topic:
        """Its topic; made with the newest seq there is, so that nothing between is missed."""
        self._count(1)
        try:
            topic = self._topics.get(session)
            if topic is None:
                info = await self._read(lambda: self._rl.get(session))
                topic = self._topics.setdefault(session, Topic(info.seq, self._settings.ring))
        except BaseException:
            self._count(-1)
            raise
        topic.clients += 1
        return topic

    def _left(self, session: str, topic: Topic) -> None:
        topic.clients -= 1
        self._count(-1)
        if not topic.clients and self._topics.get(session) is topic:
            del self._topics[session]

    def _count(self, change: int) -> None:
        if change > 0:
            self.check_room()
        self._clients += change
        self._metrics.streams.set(self._clients)

    def check_room(self) -> None:
        """TooMany before an answer has begun."""
        if self._clients >= self._settings.streams:
            raise TooMany(f"{self._clients} event streams are open already", hints=["close some"])

    async def _page(self, session: str, after: int, upto: int) -> list[tuple[int, bytes]]:
        try:
            frames = await self._read(lambda: self._frames(session, after, upto))
        except NotFound:
            return []
        # A gap in a damaged journal must not be asked for over and over again.
        return frames or [(upto, b"event: reload\ndata: {}\n\n")]

    async def _read(self, function: Callable[[], Any]) -> Any:
        assert self._loop is not None
        return await self._loop.run_in_executor(self._readers, function)


def frame_of(event: Event) -> tuple[int, bytes]:
    """A step as the stream has it. One that is too large for it comes without its content, and says so."""
    body = encoded(event_document(event))
    if len(body) > _EVENT_BYTES:
        slim = {"session": event.session, "seq": event.seq, "kind": event.kind, "at": event.at, "label": event.label}
        body = encoded({**slim, "attempt": event.attempt, "status": event.status, "truncated": True})
    return event.seq, b"id: %d\nevent: step\ndata: %s\n\n" % (event.seq, body)


def event_document(event: Event) -> dict[str, Any]:
    """A step for programs: the same that `relight tail --json` writes."""
    built: dict[str, Any] = msgspec.to_builtins(event)
    return built


def _damaged(error: Corrupt) -> str:
    return f"damaged: {error}"[:300]


def _over(why: str) -> bytes:
    return b"event: over\ndata: %s\n\n" % encoded({"why": why})
