"""Classifies the end of an agent: one pure function, total over any output.

Sources in order of trust: a signal sent by relight, the agent's structured output, the end of its transcript, messages,
the exit code with the kernel's OOM count; else `unknown`. Exit codes come last because they are nearly useless: 1 is
every API failure, 0 may be an interrupt. Messages of a process that a signal ended are not read as its reason, since it
may have been quoting.
"""

from __future__ import annotations

from typing import Final

import msgspec

from relight.journal import extensions
from relight.journal.extensions import EndReader
from relight.journal.failures import sdk_errors, texts
from relight.journal.failures.cures import verdict
from relight.journal.failures.finding import Finding
from relight.journal.failures.lenient import mapping, one_line, pick
from relight.values.ending import Ending, FailureClass, Verdict

_SIGKILL: Final = 9
_SIGNALS: Final[dict[int, FailureClass]] = {1: "terminated", 2: "interrupted", 3: "interrupted", 15: "terminated"}
_MAX_SIGNAL: Final = 64


def classify(ending: Ending) -> Verdict:
    """Decide the class, the cure and the time to retry."""
    reader = extensions.installed().end_reader(ending.agent)
    ending = msgspec.structs.replace(ending, agent=reader.NAME if reader is not None else ending.agent)
    reported = _own(ending) or (reader or sdk_errors).find(ending)
    vague = reported is not None and reported.kind == "unknown" and reader is None
    finding = (None if vague else reported) or _by_words(ending, reader) or reported or _by_exit(ending, reader)
    exit_fields = {"exit_code": ending.exit_code, "signal": _signal(ending)}
    known = {name: value for name, value in exit_fields.items() if value is not None}
    return verdict(ending, msgspec.structs.replace(finding, fields={**finding.fields, **known}), reader)


def _own(ending: Ending) -> Finding | None:
    if not ending.own_signal:
        return None
    return Finding(kind="paused", source="own_signal", fields={"own_signal": ending.own_signal})


def _by_words(ending: Ending, reader: EndReader | None) -> Finding | None:
    """What it printed last, if it ended by itself and with an error."""
    if ending.exit_code == 0 or _signal(ending) is not None or ending.exit_code is None:
        return None
    text = texts.tail(ending.stdout, ending.stderr)
    kind = texts.class_of(text) if reader is not None else sdk_errors.find_in_words(text)
    return sdk_errors.worded(kind, text, ending) if kind is not None else _retried(ending)


def _retried(ending: Ending) -> Finding | None:
    """No final message, but it was retrying: the error it retried is the best guess."""
    for line in reversed((*ending.transcript, *ending.lines)):
        if pick(line, "subtype") not in ("api_retry", "api_error"):
            continue
        error = mapping(pick(line, "error"))
        reported = pick(line, "error_status") or pick(error, "status")
        offline = pick(error, "isNetworkDown") is True or pick(error, "connection") is not None
        text = f"API Error: {reported}" if reported else str(pick(line, "error") or "")[:200]
        kind = "network" if offline else texts.class_of(text)
        return Finding(kind=kind, source="transcript", text=one_line(text)) if kind is not None else None
    return None


def _by_exit(ending: Ending, reader: EndReader | None) -> Finding:
    signal = _signal(ending)
    if signal == _SIGKILL:
        return Finding(kind="oom" if ending.oom_kills > 0 else "killed", source="exit")
    if signal is not None:
        heap = texts.class_of(texts.tail("", ending.stderr)) == "oom"
        return Finding(kind="oom" if heap else _SIGNALS.get(signal, "crashed"), source="exit")
    if ending.exit_code == 0 and not (reader is not None and reader.is_unfinished(ending)):
        return Finding(kind="ok", source="exit")
    return Finding(kind="unknown", source="none", text=one_line(texts.tail(ending.stdout, ending.stderr)[-300:]))


def _signal(ending: Ending) -> int | None:
    """The signal that ended it: reported separately, as a negative code, or as 128 + n by a shell."""
    if ending.signal:
        return ending.signal
    code = ending.exit_code
    if code is None:
        return None
    if -_MAX_SIGNAL <= code < 0:
        return -code
    return code - 128 if 128 < code <= 128 + 31 else None
