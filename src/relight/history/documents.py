"""JSON documents of sessions, checkpoints, calls and plans: the keys the reference documents, in their order.

Used by `--json` of the command line, the HTTP interface and the pages.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from relight.journal.retention import days_text
from relight.values.call import Call
from relight.values.checkpoint import Checkpoint, at
from relight.values.info import ResumePlan, SessionInfo
from relight.values.outcome import StartOutcome
from relight.values.policy import Policy
from relight.values.snapshot import RestorePlan

NOT_IN_SESSION: Final = frozenset({"message_count", "turns", "in_doubt", "question", "asking", "said"}) | frozenset(
    {"directory", "command", "size_bytes", "queue", "priority", "wants"}
)
"""fields of a session that its document leaves out; the rest are its keys, in their order"""
NOT_IN_CALL: Final = frozenset({"key", "carried_from", "asked_seq"})


def session_document(info: SessionInfo) -> dict[str, Any]:
    """A session; empty members are included."""
    built = msgspec.to_builtins(info)
    document = {key: value for key, value in built.items() if key not in NOT_IN_SESSION}
    document["usage"] = {key: getattr(info.usage, key) for key in info.usage.__struct_fields__}
    for part in (document, document["usage"]):  # sums of floats: 9.7, and not 9.69999999999999
        part |= {
            name: round(part[name], 9) for name in ("cost", "cost_tree", "cost_rate") if part.get(name) is not None
        }
    if info.failure is not None:
        document["failure"] = {"class": info.failure.kind, "text": info.failure.text, "fields": info.failure.fields}
    return document


def checkpoint_document(checkpoint: Checkpoint) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(checkpoint)
    return built


def call_document(call: Call) -> dict[str, Any]:
    built = msgspec.to_builtins(call)
    return {key: value for key, value in built.items() if key not in NOT_IN_CALL}


def plan_document(plan: ResumePlan) -> dict[str, Any]:
    """A resume plan; its calls in doubt are documents of calls."""
    built: dict[str, Any] = msgspec.to_builtins(plan)
    built["in_doubt"] = [call_document(call) for call in plan.in_doubt]
    return built


def outcome_document(outcome: StartOutcome) -> dict[str, Any]:
    """The result of a start."""
    built: dict[str, Any] = msgspec.to_builtins(outcome)
    return built


def restore_document(plans: Mapping[str, RestorePlan]) -> dict[str, Any]:
    """What a restore does or would do, by root."""
    return {
        root: {
            "target": plan.target,
            "safety": plan.safety.id,
            "written": [path_text(one.path) for one in plan.decision.writes],
            "deleted": [path_text(one.path) for one in plan.decision.deletes],
            "kept": [{"path": path_text(one.path), "reason": one.reason} for one in plan.decision.kept],
            "conflicts": [{"path": path_text(one.path), "reason": one.reason} for one in plan.decision.conflicts],
            "may_run_later": [path_text(path) for path in plan.decision.may_run_later],
            "left_out": [{"path": path_text(one.path), "reason": one.reason} for one in plan.left_out],
        }
        for root, plan in plans.items()
    }


def path_text(path: bytes) -> str:
    """A path as text; bytes that are not UTF-8 are escaped, so that it still leads to the file."""
    return os.fsdecode(path)


def encoded(document: Any) -> bytes:
    """A document as ASCII JSON bytes, including lone surrogates and long numbers."""
    import json

    return json.dumps(document, ensure_ascii=True, default=_plain, separators=(",", ":")).encode("ascii")


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value) if isinstance(value, datetime) else str(value)


def retention_document(policy: Policy, last_sweep_us: int | None) -> dict[str, Any]:
    """The store's retention policy, and when it was last swept. `retention` is null if none is set."""
    return {
        "retention": days_text(policy.finished_days) if policy.is_set else None,
        "finished_days": policy.finished_days,
        "set_by": policy.set_by or None,
        "set_at": at(policy.set_us).isoformat() if policy.set_us is not None else None,
        "last_sweep_at": at(last_sweep_us).isoformat() if last_sweep_us is not None else None,
    }
