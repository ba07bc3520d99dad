"""Gemini CLI: the last line of `--output-format json`, the error class that it names on stderr, and its exit code.

It exits with the HTTP status modulo 256, besides a few codes of its own, and with 0 when SIGTERM ends it during a
retry. The reader of error objects is the one for all programs (`relight.journal.failures.sdk_errors`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from relight.journal.failures import sdk_errors, texts
from relight.journal.failures.finding import Finding, by_status
from relight.journal.failures.lenient import one_line
from relight.values.ending import Ending, FailureClass

NAME: Final = "gemini"
PROVIDER: Final = "google"
CONTEXT_PROMPT: Final[str | None] = None
_EXIT: Final[Mapping[int, FailureClass]] = {41: "auth", 53: "max_turns"}
_STATUSES: Final = (400, 401, 402, 403, 404, 408, 413, 429, 500, 502, 503, 504, 529)


def is_unfinished(ending: Ending) -> bool:
    """Never: it has no last line that it always prints; that it was ended during a retry is found before."""
    return False


def find(ending: Ending) -> Finding | None:
    """What Gemini CLI's own records, its messages and its exit code say about this end, or None."""
    name = sdk_errors.error_named_in(ending.stderr[-texts.TAIL_CHARACTERS :])
    reported = sdk_errors.find(ending, name=name, said=_said)
    return reported if reported is not None and reported.kind != "unknown" else _by_exit(ending) or reported


def _by_exit(ending: Ending) -> Finding | None:
    code = ending.exit_code
    if ending.signal or code is None or code < 0:
        return None
    if code == 0:
        return Finding(kind="terminated", source="exit") if texts.is_retrying(ending.stderr) else None
    status = next((one for one in _STATUSES if one % 256 == code), None)
    if status is None and code > 128:
        return None  # a signal, as a shell reports it
    text = texts.tail(ending.stdout, ending.stderr)
    named = sdk_errors.class_named_in(text)
    by_code = by_status(status) or _EXIT.get(code)
    particular = [kind for kind in (named, by_code) if kind not in {None, "rate_limit"}]
    kind = particular[0] if particular else _said(text) or named or by_code
    if kind is not None:
        return sdk_errors.worded(kind, text, ending, status=status)
    return Finding(kind="unknown", source="none", text=one_line(text[-300:])) if status is not None else None


def _said(text: str) -> FailureClass | None:
    """Its message for every 429 says to check plan and billing, so that is no evidence."""
    kind = texts.class_of(text)
    return "rate_limit" if kind == "billing" and "credit" not in text.lower() else kind
