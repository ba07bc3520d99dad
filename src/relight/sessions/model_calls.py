"""A call of the model function (transient errors of its provider are retried with growing pauses), and the commit of
what it returned. A reply that the process dies with before the commit is asked for, and paid for, again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from relight.journal.conversation.model_replies import parse_reply
from relight.journal.jsonable import check_text
from relight.sessions.coroutines import Execute, Pause, Program
from relight.sessions.inputs import Reply
from relight.sessions.session_writer import SessionWriter
from relight.values.policy import Retry

_TRANSIENT_STATUS: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
_TRANSIENT_NAMES: Final = frozenset(
    {
        "APIConnectionError",
        "APITimeoutError",
        "RateLimitError",
        "InternalServerError",
        "OverloadedError",
        "ServiceUnavailableError",
        "DeadlineExceededError",
        "ReadTimeout",
        "ConnectTimeout",
        "ConnectError",
        "RemoteProtocolError",
    }
)


def ask_model(writer: SessionWriter, model: Callable[..., Any], retry: Retry) -> Program[Any]:
    """One reply of the model; transient errors are retried."""
    for failures in range(1, retry.attempts + 1):
        try:
            return (yield Execute(model, partial(model, writer.messages())))
        except Exception as error:
            if failures == retry.attempts or not is_transient(error):
                raise
            yield Pause(retry.delay_seconds(failures, writer.context.entropy.jitter()))
    raise AssertionError("unreachable: the last failure is raised")


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed later, judged by status code, by class names of provider SDKs, by type."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status in _TRANSIENT_STATUS
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    return any(kind.__name__ in _TRANSIENT_NAMES for kind in type(error).__mro__)


def commit_reply(writer: SessionWriter, returned: Any) -> None:
    """Check what the model function returned, and commit it with its usage and stop reason."""
    usage, stop = None, None
    if isinstance(returned, Reply):
        returned, usage, stop = returned.messages, returned.usage, returned.stop_reason
    fold = writer.recorder.fold
    reply = parse_reply(returned, known=fold.recognised, default=fold.format)
    if stop is not None:
        check_text(stop, "stop_reason")
    usage = usage if usage is not None else reply.usage
    writer.append(reply.messages, usage, stop=stop if stop is not None else reply.stop)
