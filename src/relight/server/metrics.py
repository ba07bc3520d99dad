"""Prometheus metrics of one server.

Sessions by status come from the store's own counters, so a scrape costs the same with ten sessions as with a million.
Steps, resumes, failures and takeovers of all processes are counted as the server reads them from the journal.
Save and snapshot times are those of this process only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from relight.errors import RelightError
from relight.history.events import Event
from relight.library.facade import Relight
from relight.values.status import STATUSES

MEDIA: Final = "text/plain; version=0.0.4; charset=utf-8"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"})
"""others count as "other": a client can invent methods, and each would be a series that stays in memory"""
_SAVES: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_REQUESTS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """Counters and histograms in a registry of their own. Thread-safe."""

    def __init__(self) -> None:
        self.registry = one = CollectorRegistry()
        self.steps = Counter("relight_steps", "Steps seen committed, by kind.", ["kind"], registry=one)
        self.saves = Histogram(
            "relight_save_seconds", "How long this process's own saves took.", buckets=_SAVES, registry=one
        )
        self.resumes = Counter(
            "relight_resumes", "Resumes of coding agents, by rung and verdict.", ["rung", "verdict"], registry=one
        )
        self.attempts = Counter("relight_attempts", "Attempts seen to begin, by rung.", ["rung"], registry=one)
        self.failures = Counter("relight_failures", "Sessions seen to fail, by class.", ["class"], registry=one)
        self.takeovers = Counter(
            "relight_lease_takeovers", "Attempts that took over from an owner that died.", registry=one
        )
        self.store_errors = Counter("relight_store_errors", "Errors of the store, by code.", ["code"], registry=one)
        self.snapshots = Histogram(
            "relight_snapshot_seconds", "How long this process's own captures took.", buckets=_SAVES, registry=one
        )
        self.snapshot_bytes = Counter(
            "relight_snapshot_bytes", "Bytes that this process's own captures stored.", registry=one
        )
        self.streams = Gauge("relight_stream_clients", "Event streams that are open.", registry=one)
        self.dropped = Counter("relight_stream_dropped", "Streams dropped because their client was slow.", registry=one)
        self.requests = Histogram(
            "relight_request_seconds", "Requests, by method, route and status.", ["method", "route", "status"],
            buckets=_REQUESTS, registry=one,
        )  # fmt: skip

    def bind(self, rl: Relight) -> None:
        """Add the gauges that are read from the store at each scrape."""
        self.registry.register(_StoreValues(rl))

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count and time one answered request."""
        self.requests.labels(method if method in _METHODS else "other", route, str(status)).observe(seconds)

    def event(self, event: Event) -> None:
        """Count the attempt, resume verdict or failure that a step records."""
        if event.started is not None:
            self.attempts.labels(event.started.get("rung") or "none").inc()
            if (event.started.get("reason") or "").startswith("terminated: its "):
                self.takeovers.inc()
        resume = event.note.get("resume")
        if isinstance(resume, dict):
            self.resumes.labels(str(resume.get("rung")), str(resume.get("verdict"))).inc()
        if event.status is not None and event.status["status"] == "failed" and event.kind != "rewind":
            failure = event.status["failure"] or {}
            self.failures.labels(str(failure.get("class", "unknown"))).inc()

    def exposition(self) -> bytes:
        """The metrics in the Prometheus text format."""
        return generate_latest(self.registry)


class _StoreValues(Collector):
    """Gauges read from the store at each scrape; `relight_store_up` is 0 if it is unavailable."""

    def __init__(self, rl: Relight) -> None:
        self._rl = rl

    def describe(self) -> list[Metric]:
        return []  # without it the registry would call collect(), and so the store, while registering

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("relight_store_up", "Does the store answer?")
        try:
            counts = self._rl.sessions.counts()
            size = self._rl.store.size_bytes()
        except RelightError:
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        sessions = GaugeMetricFamily("relight_sessions", "Sessions, by stored status.", labels=["status"])
        for status in STATUSES:
            sessions.add_metric([status], counts.get(status, 0))
        yield sessions
        yield GaugeMetricFamily("relight_store_bytes", "What the store takes.", value=size)
        durable = GaugeMetricFamily("relight_store_durability", "1 for what a step survives.", labels=["survives"])
        durable.add_metric([self._rl.store.info.durability], 1)
        yield durable
