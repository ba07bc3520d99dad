"""Every type that the public surface takes and returns, under one name: `from relight.types import SessionInfo`.

Imported on first use, as the names of `relight` itself; a program needs no other module of relight to annotate its own
functions. Errors are in `relight.errors`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relight.bundles.backup import BackedUp
    from relight.bundles.backup import Progress as BackupProgress
    from relight.bundles.copying import Copied, Progress
    from relight.bundles.export import Exported
    from relight.bundles.import_ import Imported
    from relight.bundles.readable import Document
    from relight.files.diff import FileDiff, HeldFile
    from relight.files.drill import Drilled
    from relight.files.operation import FilesReport
    from relight.fleet.queues import QueueInfo, WorkerInfo
    from relight.history.attention import Needing
    from relight.history.compare import Comparison, Side
    from relight.history.events import Event
    from relight.history.queries import Branch, Hit, Hits, LeaseInfo
    from relight.history.search import Progress as IndexProgress
    from relight.history.search import SearchHit, SearchResult
    from relight.history.verify import Report
    from relight.journal.files.undo_log import Operation
    from relight.library.admin import Admin
    from relight.library.facade import Relight
    from relight.library.files import Files
    from relight.library.history import History
    from relight.library.loaded import Loaded
    from relight.library.queues import Queues
    from relight.library.runs import Runs
    from relight.library.sessions import Sessions
    from relight.operations.health import Health
    from relight.operations.output import Output
    from relight.operations.remove import Forgotten, Removed
    from relight.operations.retention import Kept
    from relight.ports.clock import Clock, Entropy, Host
    from relight.ports.store import Store
    from relight.sessions.calls.tools import Provider, Tool, Tools
    from relight.sessions.entry.children import Named
    from relight.sessions.entry.options import SessionOptions
    from relight.sessions.inputs import Reply, SdkObject
    from relight.sessions.session import BatchBlock, Session
    from relight.sessions.shared import SharedSession
    from relight.sessions.state import StateMap
    from relight.sessions.turns.loop import InDoubt, OpenCall, Turn, TurnReply, Turns
    from relight.sessions.turns.stream import Stream
    from relight.supervision.adopt import Adoptable
    from relight.supervision.pause import Paused
    from relight.supervision.program import Supervision
    from relight.supervision.stop import Stopped
    from relight.values.acknowledged import Acknowledged
    from relight.values.call import Call, Effect, PlannedCall
    from relight.values.checkpoint import Checkpoint
    from relight.values.info import Attention, ChildInfo, FilesPlan, FilesState, Reason, ResumePlan, SessionInfo
    from relight.values.options import ResumeOptions, RunOptions
    from relight.values.outcome import Resumed
    from relight.values.policy import Allowance, LoopGuard, Policy, Retention, Retry, RunPolicy
    from relight.values.queues import Pause, Queue
    from relight.values.session import Pending
    from relight.values.snapshot import Choice, Snapshot
    from relight.values.status import Failure, Status
    from relight.values.store import StoreInfo
    from relight.values.tombstone import Tombstone
    from relight.values.usage import Usage

__all__ = [
    "Acknowledged",
    "Admin",
    "Adoptable",
    "Allowance",
    "Attention",
    "BackedUp",
    "BackupProgress",
    "BatchBlock",
    "Branch",
    "Call",
    "Checkpoint",
    "ChildInfo",
    "Choice",
    "Clock",
    "Comparison",
    "Copied",
    "Document",
    "Drilled",
    "Effect",
    "Entropy",
    "Event",
    "Exported",
    "Failure",
    "FileDiff",
    "Files",
    "FilesPlan",
    "FilesReport",
    "FilesState",
    "Forgotten",
    "Health",
    "HeldFile",
    "History",
    "Hit",
    "Hits",
    "Host",
    "Imported",
    "InDoubt",
    "IndexProgress",
    "Kept",
    "LeaseInfo",
    "Loaded",
    "LoopGuard",
    "Named",
    "Needing",
    "OpenCall",
    "Operation",
    "Output",
    "Pause",
    "Paused",
    "Pending",
    "PlannedCall",
    "Policy",
    "Progress",
    "Provider",
    "Queue",
    "QueueInfo",
    "Queues",
    "Reason",
    "Relight",
    "Removed",
    "Reply",
    "Report",
    "ResumeOptions",
    "ResumePlan",
    "Resumed",
    "Retention",
    "Retry",
    "RunOptions",
    "RunPolicy",
    "Runs",
    "SdkObject",
    "SearchHit",
    "SearchResult",
    "Session",
    "SessionInfo",
    "SessionOptions",
    "Sessions",
    "SharedSession",
    "Side",
    "Snapshot",
    "StateMap",
    "Status",
    "Stopped",
    "Store",
    "StoreInfo",
    "Stream",
    "Supervision",
    "Tombstone",
    "Tool",
    "Tools",
    "Turn",
    "TurnReply",
    "Turns",
    "Usage",
    "WorkerInfo",
]

_MODULES = {
    "Acknowledged": "relight.values.acknowledged",
    "Admin": "relight.library.admin",
    "Adoptable": "relight.supervision.adopt",
    "Allowance": "relight.values.policy",
    "Attention": "relight.values.info",
    "BackedUp": "relight.bundles.backup",
    "BackupProgress": "relight.bundles.backup",
    "BatchBlock": "relight.sessions.session",
    "Branch": "relight.history.queries",
    "Call": "relight.values.call",
    "Checkpoint": "relight.values.checkpoint",
    "ChildInfo": "relight.values.info",
    "Choice": "relight.values.snapshot",
    "Clock": "relight.ports.clock",
    "Comparison": "relight.history.compare",
    "Copied": "relight.bundles.copying",
    "Document": "relight.bundles.readable",
    "Drilled": "relight.files.drill",
    "Effect": "relight.values.call",
    "Entropy": "relight.ports.clock",
    "Event": "relight.history.events",
    "Exported": "relight.bundles.export",
    "Failure": "relight.values.status",
    "FileDiff": "relight.files.diff",
    "Files": "relight.library.files",
    "FilesPlan": "relight.values.info",
    "FilesReport": "relight.files.operation",
    "FilesState": "relight.values.info",
    "Forgotten": "relight.operations.remove",
    "Health": "relight.operations.health",
    "HeldFile": "relight.files.diff",
    "History": "relight.library.history",
    "Hit": "relight.history.queries",
    "Hits": "relight.history.queries",
    "Host": "relight.ports.clock",
    "Imported": "relight.bundles.import_",
    "InDoubt": "relight.sessions.turns.loop",
    "IndexProgress": "relight.history.search",
    "Kept": "relight.operations.retention",
    "LeaseInfo": "relight.history.queries",
    "Loaded": "relight.library.loaded",
    "LoopGuard": "relight.values.policy",
    "Named": "relight.sessions.entry.children",
    "Needing": "relight.history.attention",
    "OpenCall": "relight.sessions.turns.loop",
    "Operation": "relight.journal.files.undo_log",
    "Output": "relight.operations.output",
    "Pause": "relight.values.queues",
    "Paused": "relight.supervision.pause",
    "Pending": "relight.values.session",
    "PlannedCall": "relight.values.call",
    "Policy": "relight.values.policy",
    "Progress": "relight.bundles.copying",
    "Provider": "relight.sessions.calls.tools",
    "Queue": "relight.values.queues",
    "QueueInfo": "relight.fleet.queues",
    "Queues": "relight.library.queues",
    "Reason": "relight.values.info",
    "Relight": "relight.library.facade",
    "Removed": "relight.operations.remove",
    "Reply": "relight.sessions.inputs",
    "Report": "relight.history.verify",
    "ResumeOptions": "relight.values.options",
    "ResumePlan": "relight.values.info",
    "Resumed": "relight.values.outcome",
    "Retention": "relight.values.policy",
    "Retry": "relight.values.policy",
    "RunOptions": "relight.values.options",
    "RunPolicy": "relight.values.policy",
    "Runs": "relight.library.runs",
    "SdkObject": "relight.sessions.inputs",
    "SearchHit": "relight.history.search",
    "SearchResult": "relight.history.search",
    "Session": "relight.sessions.session",
    "SessionInfo": "relight.values.info",
    "SessionOptions": "relight.sessions.entry.options",
    "Sessions": "relight.library.sessions",
    "SharedSession": "relight.sessions.shared",
    "Side": "relight.history.compare",
    "Snapshot": "relight.values.snapshot",
    "StateMap": "relight.sessions.state",
    "Status": "relight.values.status",
    "Stopped": "relight.supervision.stop",
    "Store": "relight.ports.store",
    "StoreInfo": "relight.values.store",
    "Stream": "relight.sessions.turns.stream",
    "Supervision": "relight.supervision.program",
    "Tombstone": "relight.values.tombstone",
    "Tool": "relight.sessions.calls.tools",
    "Tools": "relight.sessions.calls.tools",
    "Turn": "relight.sessions.turns.loop",
    "TurnReply": "relight.sessions.turns.loop",
    "Turns": "relight.sessions.turns.loop",
    "Usage": "relight.values.usage",
    "WorkerInfo": "relight.fleet.queues",
}
_RENAMED = {"BackupProgress": "Progress", "IndexProgress": "Progress"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'relight.types' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), _RENAMED.get(name, name))
    return value


def __dir__() -> list[str]:
    return __all__
