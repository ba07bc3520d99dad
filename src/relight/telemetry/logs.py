"""Log records under `relight`, with `session` (its id), `seq`, `attempt` and `epoch` as fields. Silent by default.

What is logged about a session is what is recorded about it, already redacted; no message, argument or result is.
`logging` is not imported from here: a program that has not done so has set no handler, and would wait for it at start.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from relight.system.environment_secrets import redactor

if TYPE_CHECKING:
    from collections.abc import Callable
    from logging import Logger

    from relight.values.session import Identity
    from relight.values.step import Changes, Committed

DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40
"""the levels of `logging`"""


class Log:
    """A logger of `logging`, from when the program has imported that; until then it has no handler, and no record is
    made."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._logger: Logger | None = None
        self.reads: Callable[[int], bool] = self._is_read
        """whether a record of this level would be made; the logger's own method as soon as there is one"""

    def log(self, level: int, text: str, *values: object, extra: dict[str, object]) -> None:
        """Make a record, if one of this level is read."""
        if self.reads(level) and self._logger is not None:
            self._logger.log(level, text, *values, extra=extra)

    def _is_read(self, level: int) -> bool:
        logging = sys.modules.get("logging")
        # `NullHandler` is its last class: another thread may be importing it now.
        if logging is None or not hasattr(logging, "NullHandler"):
            return False
        logger = logging.getLogger(self._name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())  # without one, warnings would be printed to stderr
        self._logger, self.reads = logger, logger.isEnabledFor
        return self.reads(level)


SESSION: Final = Log("relight.session")
"""opened, resumed, ended, waiting, trouble with a lease; commits"""
TOOL: Final = Log("relight.tool")
"""calls that begin and end; wrong arguments, unknown outcomes"""
MODEL: Final = Log("relight.model")
"""retries"""
STORE: Final = Log("relight.store")
"""a store that does not answer"""


def warn(log: Log, text: str, fields: dict[str, object]) -> None:
    """A record about trouble, redacted."""
    if log.reads(WARNING):
        log.log(WARNING, "%s", redactor().text(text), extra=fields)


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
        SESSION.log(INFO, "%s %s%s", name, how, f" ({start.reason})" if start.reason else "", extra=fields)
    elif changes.status is not None:
        why = changes.status.question or changes.status.reason
        SESSION.log(INFO, "%s %s%s", name, changes.status.status, f": {why}" if why else "", extra=fields)
    else:
        SESSION.log(DEBUG, "%s @%s %s", name, step.seq, step.kind, extra=fields)
    for intent in changes.intents:
        TOOL.log(DEBUG, "%s: %s begins (%s)", name, intent.name, intent.id, extra=fields)
    for outcome in changes.outcomes:
        level = WARNING if outcome.status == "unknown" else DEBUG
        TOOL.log(level, "%s: %s ended: %s", name, outcome.id, outcome.status, extra=fields)
