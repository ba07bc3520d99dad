"""OpenTelemetry spans; a no-op where the package is not installed.

Spans leave the machine, so names, attributes and errors are redacted here; no other module creates a span.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from relight.system.machine import redactor


class Span:
    """An OpenTelemetry span, or a no-op with the same interface."""

    def __init__(self, inner: Any = None) -> None:
        self._inner = inner

    def set(self, name: str, value: str | int | float | bool) -> None:
        """Set an attribute; its value is redacted."""
        if self._inner is not None:
            self._inner.set_attribute(name, redactor().value(value))


@cache
def _tracer() -> Any:
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace.get_tracer("relight")


@contextmanager
def span(name: str, attributes: Mapping[str, Any] | None = None) -> Iterator[Span]:
    """A span around a block. An exception is recorded with type and message, and raised on."""
    tracer = _tracer()
    if tracer is None:
        yield Span()
        return
    clean = redactor()
    with tracer.start_as_current_span(
        clean.text(f"relight {name}"),
        attributes=clean.value(dict(attributes or {})),
        # The library would record the exception with its traceback, which is not redacted.
        record_exception=False,
        set_status_on_exception=False,
    ) as inner:
        try:
            yield Span(inner)
        except Exception as error:
            event = {"exception.type": type(error).__name__, "exception.message": clean.text(str(error))}
            inner.add_event("exception", event)
            inner.set_status(_status_error(), event["exception.message"])
            raise


def _status_error() -> Any:
    from opentelemetry.trace import StatusCode

    return StatusCode.ERROR
