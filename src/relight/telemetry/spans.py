"""OpenTelemetry spans, in any program that has set a tracer provider; elsewhere nothing is imported and nothing made.

A program that has set one has imported `opentelemetry.trace`, so that is looked for, and never imported from here.
Spans of model and tool calls follow the gen_ai conventions and are children of the span that is current where the
session is driven; what the called function does is inside of them.

Spans leave the machine, so attributes and errors are redacted here; no message, argument or result is in one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from relight.system.environment_secrets import redactor

if TYPE_CHECKING:
    from relight.values.session import Head, Identity
    from relight.values.usage import Usage

_API: Final = "opentelemetry.trace"
_PROVIDERS: Final = {
    "openai_chat": "openai",
    "openai_responses": "openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
}
"""format to provider, as the conventions name it, if they differ"""


class Span:
    """A span that ends with its block. `inner` None: it does nothing."""

    __slots__ = ("_current", "_inner")

    def __init__(self, inner: Any = None, *, is_current: bool = False) -> None:
        self._inner = inner
        self._current: AbstractContextManager[Any] | None = _use(inner) if is_current else None

    def __enter__(self) -> Span:
        if self._current is not None:
            self._current.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inner is None:
            return
        if isinstance(error, Exception):
            self.fail(error)
        if self._current is not None:
            self._current.__exit__(None, None, None)
        self._inner.end()

    def set(self, name: str, value: str | int | float | bool | list[str]) -> None:
        """Set an attribute; its value is redacted."""
        if self._inner is not None:
            self._inner.set_attribute(name, value if isinstance(value, int | float) else redactor().value(value))

    def fail(self, error: Exception) -> None:
        """Record an error with type and message, not with its traceback as the SDK would: that is not redacted."""
        if self._inner is None:
            return
        event = {"exception.type": type(error).__name__, "exception.message": redactor().text(str(error))}
        self._inner.add_event("exception", event)
        self._inner.set_attribute("error.type", event["exception.type"])
        self._inner.set_status(_api().StatusCode.ERROR, event["exception.message"])

    def around(self, run: Callable[[], Any], *, awaits: bool) -> Callable[[], Any]:
        """The function with this span as the current one; also while what it returns is awaited, if the driver does."""
        if self._inner is None:
            return run

        from inspect import isawaitable  # here: a tenth of the start-up of a program without spans

        def call() -> Any:
            with _use(self._inner):
                value = run()
            return self._awaited(value) if awaits and isawaitable(value) else value

        return call

    async def _awaited(self, value: Any) -> Any:
        with _use(self._inner):
            return await value

    def reply(self, format: str | None, usage: Usage | None, stop: str | None) -> None:
        """What a model's reply says about itself."""
        if self._inner is None:
            return
        if format is not None and not (self._inner.attributes or {}).get("gen_ai.provider.name"):
            self.set("gen_ai.provider.name", _PROVIDERS.get(format, format))
        if usage is not None:
            read, written = usage.cache_read_tokens, usage.cache_write_tokens
            self.set("gen_ai.usage.input_tokens", usage.input_tokens + read + written)
            self.set("gen_ai.usage.output_tokens", usage.output_tokens)
            self.set("gen_ai.usage.cache_read.input_tokens", read)
        if stop is not None:
            self.set("gen_ai.response.finish_reasons", [stop])


NO_SPAN: Final = Span()


def span(name: str, attributes: Mapping[str, Any] | None = None) -> Span:
    """A span around a block, current in it. An exception is recorded with type and message, and raised on."""
    tracer = _tracer()
    return NO_SPAN if tracer is None else Span(_started(tracer, f"relight {name}", attributes or {}), is_current=True)


def is_traced() -> bool:
    """Whether the program has set a tracer provider."""
    return _API in sys.modules and _tracer() is not None


def commit_span(session: str, kind: str) -> Span:
    """The span of one commit, by the session's id."""
    if _API not in sys.modules:  # asked with every save, so without a call
        return NO_SPAN
    tracer = _tracer()
    if tracer is None:
        return NO_SPAN
    about = {"relight.session": session, "relight.kind": kind}  # words of ours: redaction would cost more than the span
    return Span(tracer.start_span("relight commit", attributes=about), is_current=True)


def reply_span(identity: Identity, head: Head) -> Span:
    """The span of one call of the model. Its provider is the one that the session names, else that of the reply."""
    tracer = _tracer()
    if tracer is None:
        return NO_SPAN
    attributes = _about(identity, head, "chat")
    if identity.provider:
        attributes["gen_ai.provider.name"] = identity.provider
    if identity.model:
        attributes["gen_ai.request.model"] = identity.model
    return Span(_started(tracer, f"chat {identity.model or ''}".strip(), attributes, kind=_api().SpanKind.CLIENT))


def tool_span(identity: Identity, head: Head, name: str, call: str) -> Span:
    """The span of one run of a tool."""
    tracer = _tracer()
    if tracer is None:
        return NO_SPAN
    about = {"gen_ai.tool.name": name, "gen_ai.tool.call.id": call, "gen_ai.tool.type": "function"}
    return Span(_started(tracer, f"execute_tool {name}", _about(identity, head, "execute_tool") | about))


def _about(identity: Identity, head: Head, operation: str) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.conversation.id": identity.id,
        "relight.session": identity.name or identity.id,
        "relight.attempt": head.attempt,
    }


def _api() -> Any:
    return sys.modules.get(_API)


def _tracer() -> Any:
    """The program's tracer; None if it has set no provider."""
    api = _api()
    if api is None:
        return None
    provider = api.get_tracer_provider()
    if isinstance(provider, api.ProxyTracerProvider):
        return None
    if _made.get("provider") is not provider:
        _made.update(provider=provider, tracer=provider.get_tracer("relight"))
    return _made["tracer"]


_made: Final[dict[str, Any]] = {}
"""the provider and its tracer, which costs more to make than a span"""


def _started(tracer: Any, name: str, attributes: Mapping[str, Any], **more: Any) -> Any:
    clean = redactor()
    return tracer.start_span(clean.text(name), attributes=clean.value(dict(attributes)), **more)


def _use(inner: Any) -> AbstractContextManager[Any]:
    used: AbstractContextManager[Any] = _api().use_span(
        inner, end_on_exit=False, record_exception=False, set_status_on_exception=False
    )
    return used
