"""The spans that a test's code makes, by the real SDK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


class RecordedSpans:
    """A tracer provider, as a program sets it, and what it has exported."""

    def __init__(self) -> None:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def named(self, name: str) -> list[ReadableSpan]:
        return [one for one in self.exporter.get_finished_spans() if one.name == name]

    def one(self, name: str) -> ReadableSpan:
        [found] = self.named(name)
        return found


@pytest.fixture
def recorded_spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordedSpans]:
    """`trace.set_tracer_provider` can be called once in a process; what it sets can be replaced."""
    from opentelemetry import trace  # here: few tests need it, and it takes a tenth of a second

    made = RecordedSpans()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", made.provider)
    yield made
    made.provider.shutdown()
