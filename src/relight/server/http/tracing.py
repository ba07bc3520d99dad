"""Traces, where OpenTelemetry is installed and set up; nothing at all where it is not.

What a span says leaves the machine: names, attributes and errors are redacted here, and nowhere else is one made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from relight.system.machine import redactor


class Span:
    """A span, or nothing with the same two words."""

    def __init__(self, inner: Any = None) -> None:
        self._inner = inner

    def set(self, name: str, value: str | int | float | bool) -> None:
        """An attribute."""
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
    """Around a piece of work; an error inside is recorded by it, without the traceback."""
    tracer = _tracer()
    if tracer is None:
        yield Span()
        return
    clean = redactor()
    with tracer.start_as_current_span(
        clean.text(f"relight {name}"),
        attributes=clean.value(dict(attributes or {})),
        record_exception=False,
        set_status_on_exception=False,
    ) as inner:
        try:
            yield Span(inner)
        except Exception as error:
            said = {"exception.type": type(error).__name__, "exception.message": clean.text(str(error))}
            inner.add_event("exception", said)
            inner.set_status(_status_error(), said["exception.message"])
            raise


def _status_error() -> Any:
    from opentelemetry.trace import StatusCode

    return StatusCode.ERROR
