"""What one reader found: a class with the evidence for it, before any policy."""

from __future__ import annotations

import msgspec

from relight.values.ending import FailureClass, ResetSource, Source


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A class, and the details read with it."""

    kind: FailureClass
    source: Source
    text: str = ""
    reset_us: int | None = None
    reset_source: ResetSource | None = None
    model: str | None = None
    """the model family the failure is about"""
    fields: dict[str, str | int | float | bool | None] = {}


_BY_STATUS: dict[int, FailureClass] = {
    401: "auth",
    402: "billing",
    403: "auth",
    404: "model_not_found",
    407: "auth",
    408: "network",
    413: "context",
    429: "rate_limit",
    503: "overloaded",
    529: "overloaded",
}


def by_status(status: int | None) -> FailureClass | None:
    """What an HTTP status alone means. 400 means nothing: it is credit, a policy, a length or an error of ours."""
    if status is None:
        return None
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return "server_error" if 500 <= status <= 599 else None
