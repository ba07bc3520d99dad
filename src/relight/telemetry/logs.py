"""Log records under `relight`, with `session` (its id), `seq`, `attempt` and `epoch` as fields. Silent by default.

What is logged about a session is what is recorded about it, already redacted; no message, argument or result is.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Final

from relight.system.environment_secrets import redactor

if TYPE_CHECKING:
    from relight.values.session import Identity
    from relight.values.step import Changes, Committed

SESSION: Final = logging.getLogger("relight.session")
"""opened, resumed, ended, waiting, trouble with a lease; commits"""
TOOL: Final = logging.getLogger("relight.tool")
"""calls that begin and end; wrong arguments, unknown outcomes"""
MODEL: Final = logging.getLogger("relight.model")
"""retries"""
STORE: Final = logging.getLogger("relight.store")
"""a store that does not answer"""

logging.getLogger("relight").addHandler(logging.NullHandler())  # without one, warnings would be printed to stderr


def warn(logger: logging.Logger, text: str, fields: dict[str, object]) -> None:
    """A record about trouble, redacted."""
    if logger.isEnabledFor(logging.WARNING):
        logger.warning("%s", redactor().text(text), extra=fields)


def log_commit(identity: Identity, committed: Committed, changes: Changes) -> None:
    """Log one commit, whose changes are redacted. Commits without a call are logged only if SESSION is enabled for
    INFO, so that a save costs one check."""
    try:
        _log_commit(identity, committed, changes)
    # A handler of the program that fails must not look like a commit that failed. Reported as `logging` does.
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)


def _log_commit(identity: Identity, committed: Committed, changes: Changes) -> None:
    step, head, name = committed.step, committed.head, identity.name or identity.id
    fields = {"session": identity.id, "seq": step.seq, "attempt": head.attempt, "epoch": head.epoch}
    if changes.attempt is not None:
        start = changes.attempt
        how = f"resumed: attempt {start.number}, from @{start.resumed_from}" if start.number > 1 else "opened"
        SESSION.info("%s %s%s", name, how, f" ({start.reason})" if start.reason else "", extra=fields)
    elif changes.status is not None:
        why = changes.status.question or changes.status.reason
        SESSION.info("%s %s%s", name, changes.status.status, f": {why}" if why else "", extra=fields)
    else:
        SESSION.debug("%s @%s %s", name, step.seq, step.kind, extra=fields)
    for intent in changes.intents:
        TOOL.debug("%s: %s begins (%s)", name, intent.name, intent.id, extra=fields)
    for outcome in changes.outcomes:
        level = logging.WARNING if outcome.status == "unknown" else logging.DEBUG
        TOOL.log(level, "%s: %s ended: %s", name, outcome.id, outcome.status, extra=fields)
