"""Server-sent events: one thread follows the store and feeds any number of clients.

What it reads of a session is encoded once and appended to the session's ring buffer; a client is only a position in it.
A client that is further behind than the ring, also after a reconnect, is served from the journal by pages. So there is
no queue per client that could fill, a slow client costs a socket buffer and is dropped after a timeout, and no client
can slow a session down.
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
from relight.server.http.schemas import BRIEF
from relight.server.live.overview import Change, Overview
from relight.server.metrics import Metrics
from relight.server.settings import ServerSettings

_PAGE: Final = 200
_RING_BYTES: Final = 4 * 1024 * 1024
_EVENT_BYTES: Final = 256 * 1024
_MAX_IDLE_POLLS: Final = 10
_READERS: Final = 4
_RETRY_SECONDS: Final = 1.0
_JOIN_SECONDS: Final = 5.0
HEARTBEAT: Final = b": still here\n\n"
RETRY: Final = b"retry: 1000\n\n"


class Topic:
    """The ring buffer of one session's stream, or of the general one. Modified on the event loop only."""

    def __init__(self, newest: int, max_events: int) -> None:
        self.newest = newest
        self.clients = 0
        self.over: str | None = None
        """why there will be no more; empty: the server closes, and clients connect again; None while it is open"""
        self._ring: deque[tuple[int, bytes]] = deque()
        self._max_events = max_events
        self._bytes = 0
        self._since = newest
        """the ring holds every event after this number"""
        self._changed = asyncio.Event()

    def put(self, frames: Iterable[tuple[int, bytes]]) -> None:
        """Append frames with their numbers, evict the oldest beyond the limits, wake the clients."""
        for number, frame in frames:
            # The topic was created with the newest seq, and the follower may have read before that.
            if number <= self.newest:
                continue
            self._ring.append((number, frame))
            self._bytes += len(frame)
            self.newest = number
        while self._ring and (len(self._ring) > self._max_events or self._bytes > _RING_BYTES):
            number, frame = self._ring.popleft()
            self._bytes -= len(frame)
            self._since = number
        self._wake()

    def end(self, why: str) -> None:
        """End the stream for all clients."""
        self.over = why
        self._wake()

    def _wake(self) -> None:
        # A new event for each wakeup: clearing a shared one could lose it for a client that has not run yet.
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def after(self, number: int) -> list[tuple[int, bytes]] | None:
        """The frames after a number; None if the ring does not reach back that far."""
        if number < self._since:
            return None
        newer = list(takewhile(lambda one: one[0] > number, reversed(self._ring)))
        newer.reverse()
        return newer

    async def wait(self, seconds: float) -> bool:
        """Wait for new frames or the end; False on timeout."""
        changed = self._changed
        try:
            async with asyncio.timeout(seconds):
                await changed.wait()
        except TimeoutError:
            return False
        return True


class Hub:
    """The thread that follows the store, the topics that it feeds, and the streams of the clients."""

    def __init__(self, rl: Relight, settings: ServerSettings, metrics: Metrics) -> None:
        self._rl, self._settings, self._metrics = rl, settings, metrics
        self._topics: dict[str, Topic] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="relight-replay")
        self._clients = 0
        self.run = secrets.token_hex(4)
        """id of this run of the server: event numbers of the general stream are valid within one run only"""
        self._all = Topic(0, settings.ring)
        self._brief = Topic(0, settings.ring)
        """the same events with a few members each, for pages that fetch what they show"""
        self._overview = Overview(rl, metrics)
        self.polls = 0
        """how often the store was polled, for tests"""

    # -- lifecycle ------------------------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the follower thread; it delivers to topics on `loop`."""
        self._loop = loop
        self._thread = threading.Thread(target=self._follow, name="relight-follow", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End every stream and the follower; returns at once."""
        self._stopping.set()
        for topic in [self._all, self._brief, *self._topics.values()]:
            topic.end("")
        self._readers.shutdown(wait=False)

    def join(self) -> None:
        """Wait until the follower has ended."""
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)

    # -- the follower ---------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        token, idle, is_behind = object(), 0, False
        while not self._stopping.wait(self._settings.poll_seconds):
            idle += 1
            try:
                # The change token spares the reads while nothing is written. Every tenth poll reads anyway: a status
                # can change without a write, when a lease expires.
                now: object = self._rl.store.changed()
                is_due = self._overview.is_due
                if now == token and idle < _MAX_IDLE_POLLS and not (is_behind and is_due):
                    continue
                token, idle, is_behind = now, 0, not is_due
                for session, topic in list(self._topics.items()):
                    self._poll(session, topic)
                changes = self._overview.poll() if is_due else []
                self.polls += 1
                if changes:
                    self._on_loop(self._all.put, [self._overview_frame(*one) for one in changes])
                    self._on_loop(self._brief.put, [self._overview_frame(*brief(one)) for one in changes])
            except RelightError as error:
                LOG.warning("follow", extra={"code": error.code, "said": str(error)[:200]})
                self._stopping.wait(_RETRY_SECONDS)
            except Exception:  # if this thread ended, no stream would ever get another event
                if self._loop is None or self._loop.is_closed():
                    return
                LOG.exception("follow")
                self._stopping.wait(_RETRY_SECONDS)

    def _poll(self, session: str, topic: Topic) -> None:
        if not topic.clients:
            return
        try:
            frames = self._frames(session, topic.newest)
        except (NotFound, Corrupt) as error:  # ends the streams of this session only
            LOG.warning("stream over", extra={"code": error.code, "said": str(error)[:200]})
            self._on_loop(topic.end, "removed" if isinstance(error, NotFound) else _damaged(error))
            return
        if frames:
            self._on_loop(topic.put, frames)

    def _frames(self, session: str, after: int, upto: int | None = None) -> list[tuple[int, bytes]]:
        """The next page of steps, up to the first damaged one; Corrupt if that is the very next."""
        frames: list[tuple[int, bytes]] = []
        try:
            for event in islice(self._rl.history.events(session, after=after, upto=upto), _PAGE):
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
        """Stream the steps of a session (full id) after a seq, then each new one; None: only new ones."""
        topic = await self._join_topic(session)
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
                    if topic.over:
                        yield _over(topic.over)
                    return
                if not await topic.wait(self._settings.heartbeat_seconds):
                    yield HEARTBEAT
        finally:
            self._leave_topic(session, topic)

    def position(self) -> str:
        """The id of the newest event of the general stream; empty before the first poll, which reports nothing."""
        return f"{self.run}-{self._all.newest}" if self.polls else ""

    async def everything(self, last: str | None, *, in_brief: bool = False) -> AsyncIterator[bytes]:
        """Stream changes of status and attention of all sessions, after the event id `last` of a reconnecting client.

        A client that missed more than the ring holds gets a `reload` event: these changes are not in the journal."""
        self._count(1)
        topic = self._brief if in_brief else self._all
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
                    return
                if not frames and not await topic.wait(self._settings.heartbeat_seconds):
                    yield HEARTBEAT
        finally:
            self._count(-1)

    async def _join_topic(self, session: str) -> Topic:
        """The session's topic, created with the present seq if this is its first client."""
        self._count(1)
        try:
            topic = self._topics.get(session)
            if topic is None or topic.over:  # over: damaged when it was last read; it may be repaired by now
                info = await self._read(lambda: self._rl.sessions.get(session))
                topic = self._topics.get(session)  # another client may have created it while this one waited
                if topic is None or topic.over:
                    topic = self._topics[session] = Topic(info.seq, self._settings.ring)
        except BaseException:
            self._count(-1)
            raise
        topic.clients += 1
        return topic

    def _leave_topic(self, session: str, topic: Topic) -> None:
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
        """TooMany if no further stream may be opened; called before the response begins."""
        if self._clients >= self._settings.streams:
            raise TooMany(f"{self._clients} event streams are open already", hints=["close some"])

    async def _page(self, session: str, after: int, upto: int) -> list[tuple[int, bytes]]:
        try:
            frames = await self._read(lambda: self._frames(session, after, upto))
        except NotFound:
            return []
        # Nothing readable up to the newest seq, in a damaged journal: skip the gap, or the client would ask for it
        # again forever.
        return frames or [(upto, b"event: reload\ndata: {}\n\n")]

    async def _read(self, function: Callable[[], Any]) -> Any:
        assert self._loop is not None
        return await self._loop.run_in_executor(self._readers, function)


def brief(change: Change) -> Change:
    """The same change; of a session what identifies it and orders a list."""
    number, kind, document = change
    return number, kind, {name: document[name] for name in BRIEF} if kind == "session" else document


def frame_of(event: Event) -> tuple[int, bytes]:
    """A step as an event frame; one that is too large is sent without content, as `truncated`."""
    body = encoded(event_document(event))
    if len(body) > _EVENT_BYTES:
        slim = {"session": event.session, "seq": event.seq, "kind": event.kind, "at": event.at, "label": event.label}
        body = encoded({**slim, "attempt": event.attempt, "status": event.status, "truncated": True})
    return event.seq, b"id: %d\nevent: step\ndata: %s\n\n" % (event.seq, body)


def event_document(event: Event) -> dict[str, Any]:
    """A step as JSON, the same as `relight tail --json` writes."""
    built: dict[str, Any] = msgspec.to_builtins(event)
    return built


def _damaged(error: Corrupt) -> str:
    return f"damaged: {error}"[:300]


def _over(why: str) -> bytes:
    return b"event: over\ndata: %s\n\n" % encoded({"why": why})
