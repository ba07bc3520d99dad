"""The result of one check of `relight doctor`, and the checks of captured files and workspaces."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from relight.errors import RelightError, StoreError, UsageError
from relight.system.proc_table import inotify_limits
from relight.text.format import count, display_path
from relight.values.status import LIVE

if TYPE_CHECKING:
    from relight.library.facade import Relight


class Finding(NamedTuple):
    """Subject and result; `cure` is the remedy if it is not fine."""

    what: str
    text: str
    fine: bool = True
    cure: str = ""


def unless_down(what: str, check: Callable[[], Finding]) -> Finding:
    """Run a check. An unreachable blob store becomes a finding, so that the other checks still run."""
    try:
        return check()
    except RelightError as error:
        return Finding(what, f"unknown: {error.message}", False, error.hints[0] if error.hints else "")


def check_blobs(rl: Relight) -> list[Finding]:
    """Try a write, a read and a delete; no finding if files are stored on this machine."""
    try:
        location, is_remote = rl.files.location()
        if not is_remote:
            return []
        rl.admin.probe_files()
    except (StoreError, UsageError) as error:
        text = "; ".join((error.message, *error.evidence[:1]))
        return [Finding("blobs", text, False, error.hints[0] if error.hints else "check RELIGHT_BLOBS")]
    return [Finding("blobs", f"{location}: answers; captured files can be restored on any machine")]


_WATCHES: Final = 8192
"""directories of a tree of about 50,000 files"""
_INSTANCES: Final = 16
_MAX_SESSIONS: Final = 5


def check_workspaces(rl: Relight) -> list[Finding]:
    """inotify limits, then the directories of live sessions."""
    return [watching(inotify_limits()), *_live(rl)]


def watching(limits: Path) -> Finding:
    """Each directory needs one watch; without enough of them changes are found by walking, which is slower."""
    watches, instances = _number(limits / "max_user_watches"), _number(limits / "max_user_instances")
    if watches is None or instances is None:
        return Finding("watching", "no inotify on this system: changes are found by walking")
    text = f"up to {watches:,} directories, {instances:,} workspaces at once"
    if watches >= _WATCHES and instances >= _INSTANCES:
        return Finding("watching", text)
    cure = "sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=512"
    return Finding("watching", f"{text}; beyond that changes are found by walking", False, cure)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _live(rl: Relight) -> list[Finding]:
    live = [info for status in sorted(LIVE) for info in islice(rl.sessions.list(status=status), 200) if info.workspace]
    findings = []
    for info in live[:_MAX_SESSIONS]:
        lost = [path for path in info.workspace.values() if not os.path.isdir(path)]
        if lost:
            cure = f"relight stop {info.title}, then: relight resume {info.title} --restore"
            findings.append(Finding("workspace", f"{info.title}: missing: {display_path(lost[0])}", False, cure))
        else:
            findings.append(
                Finding("workspace", f"{info.title}: {', '.join(map(display_path, info.workspace.values()))}")
            )
    if len(live) > _MAX_SESSIONS:
        findings.append(Finding("workspace", f"and those of {count(len(live) - _MAX_SESSIONS, 'more session')}"))
    return findings
