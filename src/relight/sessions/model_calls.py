"""A call of the model function, and the commit of what it returned.

Transient errors of the provider are retried: after the time that it asks for, or after growing pauses. A stream is read
to its end inside the call, so a connection that breaks in the middle is retried as well, and half a reply is never
committed. A reply that the process dies with before the commit is asked for, and paid for, again.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final

import msgspec

from relight.errors import InvalidMessage, LimitReached, UsageError
from relight.journal.codec import sendable_copy
from relight.journal.conversation.model_replies import ParsedReply, parse_reply
from relight.journal.conversation.provider_responses import plain
from relight.journal.conversation.reply_ends import REFUSED_REPLY
from relight.journal.conversation.streamed_replies import assembled, is_event
from relight.journal.jsonable import check_text
from relight.journal.provider_errors import is_transient, retry_after_seconds
from relight.sessions.coroutines import Execute, Pause, Program
from relight.sessions.inputs import Reply
from relight.sessions.session_writer import SessionWriter
from relight.telemetry.logs import MODEL, warn
from relight.telemetry.spans import NO_SPAN, reply_span
from relight.values.policy import Retry
from relight.values.usage import usage_from

_FINAL: Final = ("get_final_message", "get_final_completion", "get_final_response")
"""how the SDKs' stream helpers give the whole reply"""


def ask_model(writer: SessionWriter, model: Callable[..., Any], retry: Retry) -> Program[ParsedReply]:
    """One reply of the model; transient errors are retried. It is given copies: what it marks on a message (for a
    cache) is for that one request."""
    recorder = writer.recorder
    for failures in range(1, retry.attempts + 1):
        try:
            with reply_span(recorder.identity, recorder.head) as span:
                run = partial(_received_from, model, list(map(sendable_copy, writer.messages())))
                reply = read_reply(writer, (yield Execute(model, span.around(run, awaits=writer.is_async))))
                if span is not NO_SPAN:
                    format = recorder.fold.format_with(reply.messages)
                    is_known = any(map(format.recognises, [*writer.messages(), *reply.messages]))
                    span.reply(format.name if is_known else None, usage_from(reply.usage), reply.stop)
                return reply
        except Exception as error:
            seconds = None if failures == retry.attempts else _pause_seconds(writer, retry, error, failures)
            if seconds is None:
                raise
            why = f"{type(error).__name__}: {error}"
            warn(MODEL, f"{writer.name}: the model is asked again in {seconds:.1f} s: {why}", recorder.log_fields)
            yield Pause(seconds)
            # Others of the tree went on spending meanwhile.
            if failures < retry.attempts and (limit := writer.halt_at_limit()) is not None:
                raise LimitReached(writer.name, limit.why, cure=limit.cure) from error
    raise AssertionError("unreachable: the last failure is raised")


def _pause_seconds(writer: SessionWriter, retry: Retry, error: Exception, failures: int) -> float | None:
    """How long to wait before the same request is sent again; None: never."""
    decided = retry.on(error) if retry.on is not None else None
    if decided is not None and not isinstance(decided, bool | int | float):
        raise UsageError(f"Retry(on=) returns True, False, None or seconds, not {decided!r}") from error
    if decided is False or (decided is None and not is_transient(error)):
        return None
    if decided is not None and decided is not True:
        return max(0.0, float(decided))
    context = writer.context
    asked = retry_after_seconds(error, context.clock.now_us() / 1e6)
    if asked is not None and asked > retry.max_retry_after_seconds:
        error.add_note(
            f"relight: not retried, as the provider asks to wait {asked:.0f} s (Retry.max_retry_after_seconds)"
        )
        return None
    return asked or retry.delay_seconds(failures, context.entropy.jitter())


def read_reply(writer: SessionWriter, returned: Any) -> ParsedReply:
    """What a model function returned, as a reply of this session; InvalidMessage if it is none."""
    if inspect.iscoroutine(returned):
        returned.close()
        says = "the model function returned a coroutine or an async stream; only relight.aio can await it"
        raise InvalidMessage("a coroutine", says=says)
    returned = _received(returned)
    usage, stop = None, None
    if isinstance(returned, Reply):
        returned, usage, stop = returned.messages, returned.usage, returned.stop_reason
    fold = writer.recorder.fold
    reply = parse_reply(returned, known=fold.recognised, default=fold.format)
    if stop is not None:
        named = stop.value if isinstance(stop, Enum) else stop  # Gemini's SDK has an enumeration of them
        reply = msgspec.structs.replace(reply, stop=check_text(named, "stop_reason"))
    return reply if usage is None else msgspec.structs.replace(reply, usage=usage)


def commit_reply(writer: SessionWriter, returned: Any) -> None:
    """Check what the model function returned, and commit it with its usage and stop reason."""
    reply = returned if isinstance(returned, ParsedReply) else read_reply(writer, returned)
    writer.append(reply.messages, reply.usage, stop=reply.stop, model=reply.model)


# -- streams ----------------------------------------------------------------------------------------------------------


def _received_from(model: Callable[..., Any], messages: list[dict[str, Any]]) -> Any:
    """Call the model and read a stream to its end. A coroutine if there is something to await."""
    try:
        returned = model(messages)
        return _awaited(returned) if _is_asynchronous(returned) else _received(returned)
    except Exception as error:
        return _reply_in(error)


def _reply_in(error: Exception) -> Any:
    """The reply that openai's `parse` and `stream` helpers raise as an error, because it was cut off or filtered."""
    kind = type(error).__name__
    if kind == "StreamClosed":
        error.add_note("relight: return a stream without `with`, or yield its events: it is read after the function")
    if kind == "RuntimeError" and "response.completed" in str(error):  # of openai's get_final_response
        error.add_note("relight: return the stream itself: its events say whether it broke off or was cut off")
    if kind == "LengthFinishReasonError" and hasattr(error, "completion"):
        return error.completion
    if kind == "ContentFilterFinishReasonError":
        return Reply({"role": "assistant", "content": REFUSED_REPLY}, None, "content_filter")
    raise error


def _received(returned: Any) -> Any:
    """The whole reply. Anything that is no stream is returned as it is."""
    if isinstance(returned, Reply):
        return msgspec.structs.replace(returned, messages=_received(returned.messages))
    if (parse := _parser(returned)) is not None:
        return _received(parse())
    if (final := _final(returned)) is not None:
        # Its events say more than its end: some helpers raise for a reply that was cut off, and keep nothing of it.
        whole = _whole(list(returned), None) if isinstance(returned, Iterator) else None
        return final() if whole is None else whole
    if _is_manager(returned, "__enter__"):
        with returned as entered:
            return _received(entered)
    if isinstance(returned, dict) and hasattr(returned.get("stream"), "__iter__"):  # Bedrock's ConverseStream
        return _whole(list(returned["stream"]), returned)
    if isinstance(returned, list | tuple):  # of messages or items, or of the events of a stream
        return _whole(list(returned), returned) if _are_events(returned) else returned
    return _whole(list(returned), returned) if isinstance(returned, Iterator) else returned


def _are_events(returned: Sequence[Any]) -> bool:
    first = plain(returned[0]) if returned else None
    return isinstance(first, dict) and is_event(first)


async def _awaited(returned: Any) -> Any:
    try:
        return await received_async(returned)
    except Exception as error:
        return _reply_in(error)


async def received_async(returned: Any) -> Any:
    """The whole reply, awaited on the caller's loop. Anything that is no stream is returned as it is."""
    while inspect.isawaitable(returned):
        returned = await returned
    if isinstance(returned, Reply):
        return msgspec.structs.replace(returned, messages=await received_async(returned.messages))
    if (parse := _parser(returned)) is not None:
        return await received_async(parse())
    if _is_manager(returned, "__aenter__"):
        async with returned as entered:
            return await received_async(entered)
    if isinstance(returned, AsyncIterator):
        final = _final(returned)
        whole = _whole([event async for event in returned], None if final else returned)
        return await final() if whole is None and final is not None else whole
    import asyncio  # imported late: a program without an event loop starts sooner

    return await asyncio.to_thread(_received, returned) if isinstance(returned, Iterator) else _received(returned)


def _is_asynchronous(returned: Any) -> bool:
    one = returned.messages if isinstance(returned, Reply) else returned
    return inspect.isawaitable(one) or isinstance(one, AsyncIterator) or _is_manager(one, "__aenter__")


def _parser(returned: Any) -> Callable[[], Any] | None:
    """How the SDKs' `with_raw_response` gives the reply."""
    return getattr(returned, "parse", None) if hasattr(returned, "http_response") else None


def _is_manager(returned: Any, enter: str) -> bool:
    """A stream helper that has to be entered: a context manager, and nothing to be read before."""
    kind = type(returned)
    return hasattr(kind, enter) and kind.__name__.endswith("StreamManager")


def _final(returned: Any) -> Callable[[], Any] | None:
    return next((one for name in _FINAL if callable(one := getattr(returned, name, None))), None)


def _whole(events: list[Any], stream: Any) -> Any:
    """The reply that the events of a stream are; the stream itself, to be refused by name, if they are none."""
    data = plain(events)
    whole = assembled(data) if data and all(isinstance(one, dict) for one in data) else None
    return stream if whole is None else whole
