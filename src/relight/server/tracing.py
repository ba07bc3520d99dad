"""Traces, where OpenTelemetry is installed and set up; nothing at all where it is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any


class Span:
    """A span, or nothing with the same two words."""

    def __init__(self, inner: Any = None) -> None:
        self._inner = inner

    def set(self, name: str, value: str | int | float | bool) -> None:
        """An attribute."""
        if self._inner is not None:
            self._inner.set_attribute(name, value)


@cache
def _tracer() -> Any:
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace.get_tracer("relight")


@contextmanager
def span(name: str, attributes: Mapping[str, Any] | None = None) -> Iterator[Span]:
    """Around a piece of work; an error inside is recorded by it."""
    tracer = _tracer()
    if tracer is None:
        yield Span()
        return
    with tracer.start_as_current_span(f"relight {name}", attributes=dict(attributes or {})) as inner:
        yield Span(inner)
