"""410 instead of 404 for a session that was removed, with when, by whom and why; for pages and API alike.

There are two sources. The audit log of this server has removals made through it or by a retention policy, with who and
why. The store has a tombstone for every removal, but only a digest of the id and a time: it is found by the full id.
"""

from __future__ import annotations

import json
from typing import Final

from fastapi import Request

from relight.errors import NotFound, RelightError
from relight.operations.retention import removal_text
from relight.server.http.problems import Problem, path_of
from relight.server.service import Service, service_of
from relight.text.format import count
from relight.values.checkpoint import at

_MAX_REF: Final = 200
_FOUND: Final = (
    "SELECT at_us, who, name, session, why, before FROM actions WHERE verb IN ('remove', 'sweep') AND outcome = 'done'"
    " AND (session = ?1 OR name = ?1) ORDER BY id DESC LIMIT 1"
)


def removed_problem(request: Request, error: NotFound) -> Problem | None:
    """The 410 problem of a request whose session was removed: that of the path, or what a query or a body named."""
    service = service_of(request)
    return removed(service, _ref_of(path_of(request))) or removed_of(service, error)


def removed_of(service: Service, error: RelightError) -> Problem | None:
    """The 410 problem of the session that an error did not find; None if that is another error."""
    if not isinstance(error, NotFound) or error.what not in ("session", "checkpoint"):
        return None
    return removed(service, error.ref.partition("@")[0][:_MAX_REF])


def removed(service: Service, ref: str) -> Problem | None:
    """The 410 problem of a session that was removed; None if it exists or never did."""
    if not ref:
        return None
    try:
        if service.rl.sessions.find(ref) is not None:
            return None  # the session exists; what was not found is something in it
        return _from_audit_log(service, ref) or _from_tombstone(service, ref)
    except RelightError:
        return None  # the store is unavailable, or the ref is ambiguous: the original 404 is sent


def _ref_of(path: str) -> str:
    parts = path.split("/")
    parts = parts[1:] if parts[1:2] == ["api"] else parts
    return parts[2].partition("@")[0][:_MAX_REF] if len(parts) > 2 and parts[1] in ("sessions", "checkpoints") else ""


def _from_audit_log(service: Service, ref: str) -> Problem | None:
    rows = service.state.rows(_FOUND, (ref,))
    if not rows:
        return None
    at_us, who, name, session, why, before = rows[0]
    known = json.loads(before or "{}")
    evidence = [f"removed {_when(at_us)} by {who}"]
    evidence += [f"it had {count(known['seq'], 'step')}, and was {known.get('status', '?')}"] if "seq" in known else []
    return _gone(f"{name or session}", (*evidence, *([f"because {why}"] if why else [])))


def _from_tombstone(service: Service, ref: str) -> Problem | None:
    found = service.rl.sessions.removed(ref)
    return None if found is None else _gone(ref, (removal_text(found),))


def _gone(what: str, evidence: tuple[str, ...]) -> Problem:
    detail = f"{what} was removed, with all its data"
    return Problem(status=410, code=NotFound.code, detail=detail, evidence=evidence)


def _when(at_us: int) -> str:
    return f"{at(at_us).astimezone():%Y-%m-%d %H:%M:%S}"
