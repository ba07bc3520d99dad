"""Waits of a session: `queued` with a wake time, or `waiting` for a person, with the lease released.

The waiting process only polls the session's row: another process may claim it, a person may send a prompt. Usage limits
belong to a provider, account and model, so a session also waits for limits that another session has met.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from itertools import islice
from typing import Final, Literal

from relight.history import listing
from relight.history.loading import Found, resolve
from relight.ports.store import Query
from relight.sessions.context import Context
from relight.supervision.pause import paused
from relight.values.checkpoint import at
from relight.values.info import Reason
from relight.values.session import Head, Identity

Woken = Literal["now", "taken", "stopped"]
"""now: its time has come; taken: another process claimed or ended it; stopped: the waiting process was asked to stop"""
POLL_SECONDS: Final = 0.1
_ROW_SECONDS: Final = 0.3
MAX_QUEUED: Final = 1000
"""newest queued sessions that are searched for a limit; to miss one costs one refused request"""


def wait(context: Context, session: str, wake_us: int | None, *, stop: Callable[[], bool]) -> Woken:
    """Wait until its time has come, or a decision, answer or prompt wakes it sooner. None: only the latter."""
    seq = resolve(context.store, session).whole_head().seq
    read_us = context.clock.instant().us
    while True:
        if stop():
            return "stopped"
        is_due = wake_us is not None and context.clock.now_us() >= wake_us
        if is_due and paused(context) is None:
            return "now"
        if context.clock.instant().us - read_us >= _ROW_SECONDS * 1e6:
            read_us = context.clock.instant().us
            head = resolve(context.store, session).whole_head()
            if head.lease is not None or (head.seq != seq and head.status not in ("queued", "waiting")):
                return "taken"
            if head.seq != seq and head.status == "queued" and paused(context) is None:
                return "now"  # a decision, an answer, a new prompt
        context.clock.sleep(POLL_SECONDS)


def is_time(context: Context, head: Head, *, stop: Callable[[], bool]) -> bool:
    """Wait for the end of a pause, or for a question with a time-out until it is answered or times out: whether its
    program is to run now.

    False for a question without a time-out, and for a session with a queue position, which a worker wakes.
    """
    if head.status not in ("waiting", "queued") or head.wake_us is None or head.queue_position is not None:
        return False
    return wait(context, head.session, head.wake_us, stop=stop) == "now"


def limited_until(context: Context, found: Found, provider: str | None, account: str | None) -> int | None:
    """The end of a usage limit met by this session or another of the same provider, account and model; or None."""
    latest, now_us = None, context.clock.now_us()
    queued = listing.every_session(context.store, Query(statuses=frozenset({"queued"})))
    for record in islice(queued, MAX_QUEUED):
        head = record.head
        if head is None or head.wake_us is None or head.wake_us <= now_us:
            continue
        failure = head.failure
        if failure is None or failure.kind != "usage_limit" or failure.fields.get("provider") != provider:
            continue
        if account is not None and failure.fields.get("account") not in (None, account):
            continue
        model = failure.fields.get("model")
        if model is None or found.identity.model is None or str(model) in found.identity.model:
            latest = max(latest or 0, head.wake_us)
    return latest


def account_of(context: Context, identity: Identity) -> str | None:
    """An id of the credential in use, as a short hash that does not reveal it: usage limits belong to an account."""
    for name in context.agent(identity).secrets:
        if value := context.environment.get(name):
            return f"{name}:{sha256(value.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
    return None


def foresee_wait(context: Context, found: Found) -> int | None:
    """Until when a start of this coding agent's session would be queued because of a usage limit; or None."""
    adapter = context.agent(found.identity)
    if not adapter.capabilities.transcript:
        return None
    return limited_until(context, found, adapter.provider, account_of(context, found.identity))


def limit_of(context: Context, found: Found) -> Reason | None:
    """A plan's reason why a resume would not run yet: a usage limit that applies to this session too."""
    provider, wake_us = context.agent(found.identity).provider, foresee_wait(context, found)
    if wake_us is None:
        return None
    name = found.identity.name or found.identity.id[:8]
    until = f"{at(wake_us).astimezone():%Y-%m-%d %H:%M}"
    text = f"the usage limit of {provider} was met: it does not run yet, but is queued until {until}"
    return Reason(code="usage_limit", text=text, cure=f"relight resume {name} --now", blocks=False)
