"""Effects that began after a step, on any branch: what a person is shown before going back to that step."""

from __future__ import annotations

from typing import Any

import msgspec

from relight.errors import Corrupt
from relight.history.loading import Found, chain_of, load
from relight.journal.codec import Undecodable, decode_changes
from relight.journal.formats.format import CallSite
from relight.journal.lineage import stretches
from relight.ports.store import Store
from relight.values.call import Call, Intent, Outcome
from relight.values.checkpoint import at
from relight.values.step import Step


def effects_since(store: Store, found: Found, seq: int) -> list[Call]:
    """Effects declared `once` that began after a step, on any branch, in the order they began. Corrupt if a step
    since then cannot be read."""
    fold = load(store, found)
    begun: dict[tuple[int, str, int], Call] = {}
    asked: dict[tuple[int, str], CallSite] = {}
    newest = found.whole_head().seq
    for stretch in stretches(chain_of(store, found.identity), after=seq, upto=newest):
        for step in store.steps(stretch.session, after=stretch.after, upto=stretch.upto):
            try:
                changes = decode_changes(step.body)
            except Undecodable as error:
                raise Corrupt(f"the step cannot be read: {error}", session=found.identity.id, seq=step.seq) from None
            for message in changes.messages:
                for site in fold.format.calls(message) if isinstance(message, dict) else ():
                    asked[step.seq, site.id] = site
            for outcome in changes.outcomes:
                _end(begun, outcome, step)
            for intent in changes.intents:
                if intent.effect == "once":
                    slot = fold.slot(intent.asked_seq, intent.id)
                    asks = slot.site if slot is not None else asked.get((intent.asked_seq, intent.id))
                    arguments = asks.parsed() if asks is not None else intent.arguments
                    begun[intent.asked_seq, intent.id, intent.generation] = _begun(step, intent, arguments)
    return list(begun.values())


def _begun(step: Step, intent: Intent, arguments: Any) -> Call:
    return Call(
        id=intent.id,
        name=intent.name,
        arguments=arguments,
        effect=intent.effect,
        in_doubt=True,
        intent_seq=step.seq,
        started_at=at(step.at_us),
        asked_seq=intent.asked_seq,
    )


def _end(begun: dict[tuple[int, str, int], Call], outcome: Outcome, step: Step) -> None:
    key = (outcome.asked_seq, outcome.id, outcome.generation)
    call = begun.get(key)
    if call is None or outcome.status == "unknown" or outcome.carried_from:
        return  # these say nothing about whether this generation took effect
    if outcome.status == "void":
        del begun[key]
        return
    ended = {"result": outcome.content, "success": outcome.status == "ok", "in_doubt": False}
    begun[key] = msgspec.structs.replace(call, **ended, result_seq=step.seq, ended_at=at(step.at_us))
