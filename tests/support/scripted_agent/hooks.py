"""Hooks: commands of the user's that are told what happens, and may decide about a tool.

Those of one event run one after the other, each with a JSON object on its stdin. One that fails, says nonsense or
takes too long is passed over. Only exit code 2 before a tool, or a decision, keeps the tool from running.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Decision = Literal["allow", "deny", "defer"]
_WEIGHT: Final[dict[str, int]] = {"allow": 0, "defer": 1, "deny": 2}
_SECONDS: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the hooks decided together: the strictest of them wins."""

    decision: Decision = "allow"
    reason: str = ""


class Hooks:
    """All hooks of a run."""

    def __init__(
        self, groups: Mapping[str, Sequence[Mapping[str, Any]]], reported: Mapping[str, Any], directory: str
    ) -> None:
        self._groups = groups
        self._told = reported
        self._directory = directory

    def run(self, event: str, *, tool: str = "", **fields: Any) -> Verdict:
        """Tell every hook of this event."""
        payload = json.dumps({**self._told, "hook_event_name": event, **fields})
        verdict = Verdict()
        for group in self._groups.get(event, ()):
            if tool and not _matches(str(group.get("matcher") or "*"), tool):
                continue
            for hook in group.get("hooks", ()):
                reported = self._one(event, hook, payload)
                if _WEIGHT[reported.decision] > _WEIGHT[verdict.decision]:
                    verdict = reported
        return verdict

    def _one(self, event: str, hook: Mapping[str, Any], payload: str) -> Verdict:
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", str(hook.get("command", ""))],
                input=payload,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=float(hook.get("timeout") or _SECONDS),
                cwd=self._directory,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return Verdict()
        if event == "PreToolUse" and done.returncode == 2:
            return Verdict(decision="deny", reason=done.stderr.strip())
        return _said(done.stdout) if done.returncode == 0 else Verdict()


def _matches(matcher: str, tool: str) -> bool:
    return matcher == "*" or re.fullmatch(matcher, tool) is not None


def _said(text: str) -> Verdict:
    try:
        said = json.loads(text)["hookSpecificOutput"]
        decision = said["permissionDecision"]
        return (
            Verdict(decision=decision, reason=str(said.get("permissionDecisionReason") or ""))
            if (decision in _WEIGHT)
            else Verdict()
        )
    except (ValueError, KeyError, TypeError):
        return Verdict()
