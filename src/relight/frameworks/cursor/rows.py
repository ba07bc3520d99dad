"""Writes and pages of the Cursor SDK's store operations: rows, events, blobs, filters. Pure.

An agent's session has its row and the rows of its runs as state; a run's session has its events as messages; a third
session has the blobs of an agent's checkpoints as state. Order, page sizes and cursors are those of the SDK's own
stores, and so are the refusals: creating what exists, updating what does not.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from relight.errors import NotFound, UsageError
from relight.journal.fold import Fold
from relight.sessions.shared import Write
from relight.values.status import StatusChange
from relight.values.step import Changes

PAGE: Final = 50
EVENTS_PAGE: Final = 100
AGENT_ROW: Final = "agent"
_RUN: Final = "run:"
_BLOB: Final = "blob:"
_ENDED: Final = "ended"
_VERDICTS: Final = {
    "finished": StatusChange(status="completed", reason="the run finished"),
    "error": StatusChange(status="failed", reason="the run ended with an error"),
    "cancelled": StatusChange(status="halted", reason="the run was cancelled"),
    "expired": StatusChange(status="halted", reason="the run expired"),
}
_IDLE: Final = StatusChange(status="completed", reason="no run is active")
_FAILED: Final = StatusChange(status="failed", reason="its last run ended with an error")

Row = dict[str, Any]


# -- agents and runs ----------------------------------------------------------------------------------------------


def put_agent(fold: Fold, row: Row, *, is_new: bool) -> Write:
    """Create or update an agent's row."""
    _check_there(AGENT_ROW in fold.state, is_new, f"agent {row['agentId']}")
    return Write(kind="state", changes=Changes(state={AGENT_ROW: row}), ends=_agent_status(row))


def put_run(fold: Fold, row: Row, *, is_new: bool) -> Write:
    """Create or update the row of one run."""
    key = f"{_RUN}{row['runId']}"
    _check_there(key in fold.state, is_new, f"run {row['runId']} of agent {row['agentId']}")
    return Write(kind="state", changes=Changes(state={key: row}), ends=_agent_status(fold.state.get(AGENT_ROW)))


def remove_rows(fold: Fold, keys: Sequence[str]) -> Write | None:
    """Remove rows; None if none of them exists."""
    gone = [key for key in keys if key in fold.state]
    return Write(kind="state", changes=Changes(unset=gone), ends=_IDLE) if gone else None


def runs_of(state: Mapping[str, Any]) -> list[Row]:
    """The rows of an agent's runs."""
    return [row for key, row in state.items() if key.startswith(_RUN)]


def run_key(run_id: str) -> str:
    """The state key of a run's row."""
    return f"{_RUN}{run_id}"


def verdict_of(row: Row) -> StatusChange | None:
    """The status change for a run that has ended; None while it has not."""
    return _VERDICTS.get(str(row.get("status")))


def _agent_status(row: Any) -> StatusChange | None:
    status = row.get("status") if isinstance(row, dict) else None
    if status == "running":
        return None
    return _FAILED if status == "error" else _IDLE


def _check_there(is_there: bool, is_new: bool, what: str) -> None:
    if is_new and is_there:
        raise UsageError(f"{what} already exists")
    if not is_new and not is_there:
        raise NotFound(what, what="row", hints=["create it first"])


# -- events -------------------------------------------------------------------------------------------------------


class Keys:
    """Index of a run's events by idempotency key, extended as the run grows."""

    def __init__(self) -> None:
        self._messages: list[Row] | None = None
        self._counted = 0
        self._by_key: dict[str, Row] = {}

    def find(self, fold: Fold, key: str | None) -> Row | None:
        """The event that was appended under this key; None if there is none."""
        # The fold extends its list in place; another list means another state (a reset), to be indexed again.
        if fold.messages is not self._messages or len(fold.messages) < self._counted:
            self._messages, self._counted, self._by_key = fold.messages, 0, {}
        for event in fold.messages[self._counted :]:
            if event.get("idempotencyKey"):
                self._by_key.setdefault(event["idempotencyKey"], event)
        self._counted = len(fold.messages)
        return self._by_key.get(key) if key else None


def next_event(fold: Fold, given: Row) -> Row:
    """The event with the next number of its run."""
    seq = int(fold.messages[-1]["seq"]) + 1 if fold.messages else 1
    return {**given, "seq": seq, "offset": str(seq)}


def put_event(fold: Fold, event: Row) -> Write:
    """Add an event. One that arrives after the end of its run keeps the run's final status."""
    return Write(changes=Changes(messages=[event]), ends=_VERDICTS.get(fold.state.get(_ENDED, "")))


def end_events(fold: Fold, status: str) -> Write | None:
    """Record the end of a run; None if it is recorded already."""
    if fold.state.get(_ENDED) == status:
        return None
    return Write(kind="state", changes=Changes(state={_ENDED: status}), ends=_VERDICTS[status])


def events_after(events: Sequence[Row], offset: Any, limit: Any) -> tuple[list[Row], str | None]:
    """A page of events after an offset, and the offset of the next page, if any."""
    try:
        after = int(offset or 0)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"invalid offset of run events: {offset!r}") from None
    rest = [event for event in events if event["seq"] > after]
    page = rest[: _size(limit, EVENTS_PAGE)]
    return page, (page[-1]["offset"] if page and len(rest) > len(page) else None)


# -- blobs --------------------------------------------------------------------------------------------------------


def put_blob(fold: Fold, blob: str, data: str, *, is_new: bool) -> Write | None:
    """Create or update a blob; None if it has these bytes already."""
    key = f"{_BLOB}{blob}"
    _check_there(key in fold.state, is_new, f"checkpoint blob {blob}")
    if fold.state.get(key) == data:
        return None
    return Write(kind="state", changes=Changes(state={key: data}), ends=_IDLE)


def remove_blobs(fold: Fold, blobs: Iterable[str]) -> Write | None:
    """Remove blobs; None if none of them exists."""
    return remove_rows(fold, [f"{_BLOB}{blob}" for blob in blobs])


def blob_of(state: Mapping[str, Any], blob: str) -> str | None:
    """The bytes of a blob as base64; None if it does not exist, or was redacted because it held a secret."""
    data: str | None = state.get(f"{_BLOB}{blob}")
    # base64 has no bracket: this is a placeholder of the redactor, which the SDK would fail to decode.
    return None if data is None or data.startswith("[redacted:") else data


def blobs_of(state: Mapping[str, Any]) -> list[str]:
    """The ids of the stored blobs."""
    return [key[len(_BLOB) :] for key in state if key.startswith(_BLOB)]


# -- filters and pages --------------------------------------------------------------------------------------------


def wanted(given: Any, names: str) -> set[str] | None:
    """The ids in a filter; None: no filter."""
    ids = given.get(names) if isinstance(given, Mapping) else None
    if not ids:
        return None
    if not isinstance(ids, list | tuple) or not all(isinstance(one, str) for one in ids):
        raise UsageError(f"{names} must be a list of ids, not {ids!r:.100}")
    return set(ids)


def page_of_agents(rows: Iterable[Row], given: Mapping[str, Any]) -> Row:
    """A page of agents, last updated first."""
    rows = [row for row in rows if given.get("cwd") is None or row.get("cwd") == given["cwd"]]
    return _page(rows, given, ("updatedAt", "agentId"), newest_first=True)


def page_of_runs(rows: Iterable[Row], given: Mapping[str, Any]) -> Row:
    """A page of runs, by turn number."""
    return _page(rows, given, ("turnNumber", "runId"), newest_first=False)


def page_of_blobs(blobs: Iterable[str], given: Mapping[str, Any]) -> Row:
    """A page of blob ids, sorted; the cursor is the last id."""
    after = given.get("cursor") or ""
    if not isinstance(after, str):
        raise UsageError("invalid cursor")
    ordered = sorted(blob for blob in blobs if blob > after)
    page = ordered[: _size(given.get("limit"), PAGE)]
    return {"items": page, **({"nextCursor": page[-1]} if page and len(ordered) > len(page) else {})}


def _page(rows: Iterable[Row], given: Mapping[str, Any], by: tuple[str, str], *, newest_first: bool) -> Row:
    def position(row: Mapping[str, Any]) -> tuple[float, str]:
        number = row.get(by[0])
        if not isinstance(number, int | float) or isinstance(number, bool):
            number = 0  # one malformed row must not make the whole list unsortable
        return number, row[by[1]]

    ordered = sorted(rows, key=position, reverse=newest_first)
    if given.get("cursor"):
        last = position(_read_cursor(given["cursor"], by))
        ordered = [row for row in ordered if (position(row) < last if newest_first else position(row) > last)]
    page = ordered[: _size(given.get("limit"), PAGE)]
    if page and len(ordered) > len(page):
        return {"items": page, "nextCursor": _cursor(dict(zip(by, position(page[-1]), strict=True)))}
    return {"items": page}


def _cursor(position: Row) -> str:
    text = json.dumps(position, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_cursor(cursor: Any, by: tuple[str, str]) -> Row:
    try:
        position = json.loads(base64.urlsafe_b64decode(f"{cursor}==="))
        if isinstance(position[by[0]], int | float) and isinstance(position[by[1]], str):
            return {name: position[name] for name in by}
    except (ValueError, TypeError, KeyError):
        pass
    raise UsageError("invalid cursor")


def _size(limit: Any, default: int) -> int:
    if limit is None:
        return default
    if not isinstance(limit, int | float) or not limit >= 0:
        raise UsageError(f"limit must be a number of at least 0, not {limit!r}")
    return int(min(limit, sys.maxsize))
