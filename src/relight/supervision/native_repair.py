"""Prepares a native session for a resume: it agrees with the journal, and every tool call in it has a result.

    if the agent's own file exists and agrees: record what it has more, and append the missing lines to it
    else write a new native session from the journal: after a fork or rewind, in an empty home, in another directory

A call that ran on an abandoned branch, or in a fork's parent, gets the result it had there. A file with an unreadable
tail is copied before it is changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from relight.journal.effects.ledger import action_for
from relight.journal.fold import Slot
from relight.ports.agent import Line, NativeCall, NativeResult, Surroundings
from relight.sessions.recorder import Recorder
from relight.supervision.approvals import is_decided, told_of
from relight.supervision.observe import SIDECHAIN, Observer
from relight.values.call import NOT_RUN_HERE, OUTCOME_UNKNOWN, Effect

_FILES_NAMED: Final = 12
LEFT_BEHIND: Final = "its result was left behind by going back; ask for it again if you need it"
MAY_RUN_AGAIN: Final = "not run: it may run again; ask for it again"
_TEXT: Final = 100_000
_IMAGE: Final = "(an image, which is not carried over; ask for it again if you need it)"


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """A native session that can be resumed."""

    native: str
    path: Path
    written: bool
    """written from the journal, not the agent's own file"""
    unknown: tuple[NativeCall, ...] = ()
    """calls that the model is told have an unknown outcome"""
    deferred: bool = False
    """a call was waiting for a decision that has been made: the agent asks its hook again"""


def make_ready(
    observer: Observer,
    surroundings: Surroundings,
    *,
    aside: Path,
    changed: Callable[[], Sequence[str] | None],
    task: str | None,
    now_us: int,
) -> Ready | None:
    """Prepare the native session for the next attempt; None if there is nothing to resume.

    `changed` returns the files that changed since before the interrupted calls; it is called only if there are any.
    `task` is the initial prompt: a session that only hooks have reported begins with it.
    """
    adapter, recorder = observer.adapter, observer.recorder
    if not adapter.capabilities.native_resume:
        return None
    native = recorder.head.native
    path = adapter.locate(native, surroundings) if native is not None else None
    missing: list[Line] = []
    if path is not None:
        observer.follow(path)
        _copy_torn(observer, aside)
        observer.end_unfinished()
        compared = observer.compare()
        if compared.relation == "behind":
            missing = recorder.fold.messages[compared.common :]
        else:
            observer.sync()
    if not recorder.fold.messages and (not recorder.fold.hooked or task is None):
        return None
    lines, changed = list(recorder.fold.messages), cache(changed)
    if path is not None and native is not None and not missing and _is_decided(observer, lines, now_us):
        return Ready(native=native, path=path, written=False, deferred=True)
    begun = [adapter.prompted(task, at_us=now_us)] if not lines and task is not None else []
    added, unknown, carried, settled = _repair(observer, [*lines, *begun], changed, now_us)
    added = [*begun, *added]
    note: dict[str, Any] = {"carried_over": carried} if carried else {}
    note |= {"told": "denied"} if settled else {}
    if path is not None and native is not None:
        offset = observer.transcript.offset if observer.transcript is not None else 0
        # The file first, then the journal by reading the file, as always: a kill between the two repeats nothing.
        adapter.append(path, [*missing, *added], offset=offset)
        observer.sync()
        _settle(observer, changed, now_us)
        if note:
            observer.mark(note, used=settled)
        return Ready(native=native, path=path, written=False, unknown=unknown)
    fresh = adapter.new_id()
    if fresh is None:
        return None
    path = adapter.write([*lines, *added], fresh, surroundings)
    observer.follow(path)
    observer.sync()
    observer.mark({"native": "written from the journal", **note}, native=fresh, used=settled)
    _settle(observer, changed, now_us)
    return Ready(native=fresh, path=path, written=True, unknown=unknown)


def _settle(observer: Observer, changed: Callable[[], Sequence[str] | None], now_us: int) -> None:
    """Sub-agents whose end was reported to the parent are not reported again."""
    if observer.subagents is not None:
        observer.subagents.settle(lambda: unknown_text("once", changed()), now_us)


def _is_decided(observer: Observer, lines: list[Line], now_us: int) -> bool:
    """Whether the agent would ask its hook again about a pending call, and there is a decision about it."""
    if not observer.adapter.capabilities.defers:
        return False
    return any(is_decided(observer.recorder, call.id, now_us=now_us) for call in observer.adapter.pending(lines))


def _repair(
    observer: Observer, lines: list[Line], changed: Callable[[], Sequence[str] | None], now_us: int
) -> tuple[list[Line], tuple[NativeCall, ...], dict[str, str], list[str]]:
    """Lines that give every call exactly one result; the calls whose outcome is unknown; the calls whose result was
    carried over, with the step it comes from; the questions whose denial is reported with them."""
    adapter, fold = observer.adapter, observer.recorder.fold
    added: list[Line] = []
    for effect in list(fold.hooked.values()):  # reported by a hook, but not in the transcript when the agent died
        if effect.intent.name.startswith(SIDECHAIN):
            continue
        call = NativeCall(id=effect.intent.id, name=effect.intent.name, arguments=effect.intent.arguments)
        added.append(adapter.asked(call, [*lines, *added], at_us=now_us))

    def effect_of(call: NativeCall) -> Effect:
        return adapter.effect_of(call.name, call.arguments)

    recorder, calls = observer.recorder, adapter.pending([*lines, *added])
    reports = observer.subagents.results(calls, changed) if observer.subagents is not None else {}
    results, unknown, carried = results_of(recorder, calls, effect_of, changed, reports, now_us=now_us)
    told = [told_of(recorder, call, now_us=now_us) for call in calls]
    if results:
        added += adapter.answered(results, [*lines, *added], at_us=now_us)
    about = observer.subagents.note(reports, changed) if observer.subagents is not None else None
    if about is not None and adapter.subagents is not None:
        added.append(adapter.subagents.told(about, [*lines, *added], at_us=now_us))
    return added, unknown, carried, [question for one in told if one is not None for question in one[1]]


def results_of(
    recorder: Recorder,
    calls: Sequence[NativeCall],
    effect_of: Callable[[NativeCall], Effect],
    changed: Callable[[], Sequence[str] | None],
    reports: Mapping[str, NativeResult],
    *,
    now_us: int,
) -> tuple[dict[str, NativeResult], tuple[NativeCall, ...], dict[str, str]]:
    """What the model is told about calls without a result; those whose outcome is unknown; those whose result was
    carried over, with the step it comes from. `reports`: what is known of calls that began a sub-agent."""
    fold = recorder.fold
    known = {slot.site.id: slot for slot in fold.slots()}
    outcomes = {key: effect.outcome for key, effect in fold.hooked.items()}
    results: dict[str, NativeResult] = {}
    carried: dict[str, str] = {}
    unknown = []
    for call in calls:
        slot = known.get(call.id)
        outcome = slot.outcome if slot is not None else outcomes.get(call.id)
        if outcome is not None and outcome.status in ("ok", "error"):
            as_reported = NativeResult(text=_as_text(outcome.content), failed=outcome.status == "error")
            results[call.id] = reports.get(call.id, as_reported) if outcome.status == "ok" else as_reported
        elif slot is not None and (elsewhere := _known_elsewhere(slot, effect_of(call))):
            results[call.id] = elsewhere
            if slot.prior is not None and slot.prior.outcome is not None and elsewhere.text != LEFT_BEHIND:
                carried[call.id] = slot.prior.at
        elif (slot is None or slot.intent is None) and (told := told_of(recorder, call, now_us=now_us)) is not None:
            results[call.id] = told[0]
        elif recorder.identity.policy.approve and slot is not None and slot.intent is None:
            # With approvals no call begins unless that is recorded.
            results[call.id] = NativeResult(text=MAY_RUN_AGAIN)
        elif call.id not in reports:
            unknown.append(call)
    evidence = changed() if unknown else None
    for call in unknown:
        results[call.id] = NativeResult(text=unknown_text(effect_of(call), evidence))
    results = {**{call.id: reports[call.id] for call in calls if call.id in reports}, **results}
    return results, tuple(unknown), carried


def _known_elsewhere(slot: Slot, effect: Effect) -> NativeResult | None:
    """A call's result as known from another branch or the fork's parent; None if nothing is known."""
    prior, action = slot.prior, action_for(slot, effect)
    if prior is not None and prior.outcome is not None:
        if action == "carry":
            return NativeResult(text=_as_text(prior.outcome.content), failed=prior.outcome.status == "error")
        return NativeResult(text=LEFT_BEHIND)
    if prior is not None and prior.belongs_to:
        return NativeResult(text=f"{NOT_RUN_HERE}{prior.belongs_to}")
    return NativeResult(text=MAY_RUN_AGAIN) if slot.generation > 1 and not slot.in_doubt else None


def unknown_text(effect: str, changed: Sequence[str] | None) -> str:
    """The result text for a call that was interrupted, with the evidence about files."""
    if effect == "pure":
        return "interrupted: the process died before the result came; it changes nothing and can be asked for again"
    if changed is None:
        evidence = "Which files it changed is not known."
    elif not changed:
        evidence = "No captured file has changed since before it began."
    else:
        names = ", ".join(changed[:_FILES_NAMED])
        more = f" and {len(changed) - _FILES_NAMED} more" if len(changed) > _FILES_NAMED else ""
        evidence = f"Files changed since before it began: {names}{more}."
    return f"{OUTCOME_UNKNOWN}. The process died while this call was running. {evidence}"


def _as_text(content: Any) -> str:
    """A result reported by a hook, as text for the model."""
    if isinstance(content, str):
        return content[:_TEXT] or "(no output)"
    if isinstance(content, dict) and isinstance(content.get("stdout"), str):
        texts = [content["stdout"], content.get("stderr") if isinstance(content.get("stderr"), str) else ""]
        return "\n".join(text for text in texts if text)[:_TEXT] or "(no output)"
    if isinstance(content, list) and any(
        isinstance(part, dict) and "image" in str(part.get("type")) for part in content
    ):
        # As text an image would be a hundred thousand useless characters.
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        return "\n".join([*(text for text in texts if isinstance(text, str)), _IMAGE])[:_TEXT]
    return json.dumps(content, ensure_ascii=False)[:_TEXT]


def _copy_torn(observer: Observer, aside: Path) -> None:
    """Copy a transcript with a torn tail, redacted, before the tail is cut off."""
    transcript = observer.read()
    if transcript is not None and transcript.torn:
        copy = aside / f"torn-{transcript.offset}-{observer.recorder.head.attempt}.jsonl"
        observer.adapter.keep(transcript.path, copy, observer.recorder.recording.about)
