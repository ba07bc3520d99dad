"""The effect ledger: what steps outside the visible conversation say about its effects.

An effect belongs to the session's whole life: a rewind hides steps, but does not undo what they did. So before a call
runs, the steps on abandoned branches are consulted: it ended there (the outcome is carried over), it began there (it is
in doubt here too), or it was allowed to run again (it has a new generation). Position decides nothing: the greatest
generation counts, and within it the newest step.

A fork is a life of its own and never runs what its parent requested: an open call that came with the fork gets the
outcome that the parent had recorded, on any branch, when the fork was made, or the model learns that it belongs to the
parent. A `once` key is the fork's own, unless it had begun in the conversation that the fork inherits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from relight.journal.fold import Effect, Fold, Slot
from relight.values.call import NOT_RUN, NOT_RUN_HERE, OUTCOME_UNKNOWN, Action, Intent, Outcome, Prior
from relight.values.call import Effect as Declared
from relight.values.step import Carried, Changes, Step
from relight.values.view import Result

_AT_MAX_ONCE: Final[frozenset[str | None]] = frozenset({"once", "probe"})
CARRIES_EFFECTS: Final = frozenset({"intent", "result", "message", "rewind"})
"""kinds of steps that can record an effect; a reset only repeats what others recorded (but see `take_carried`)"""


def branch_points(bases: Mapping[int, int], path: Iterable[int]) -> dict[int, int]:
    """For each step off the visible path, the visible step at which its branch was left (0: the beginning)."""
    seen = set(path)
    points: dict[int, int] = {}
    for seq in sorted(bases):
        if seq not in seen:
            base = bases[seq]
            points[seq] = base if base in seen or base == 0 else points.get(base, 0)
    return points


class EffectLedger:
    """Collects what invisible steps say about the effects of a fold, then attaches it."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._open = {(slot.asked_seq, slot.site.id): slot for slot in fold.open_slots()}
        self._by_id = {slot.site.id: slot for slot in fold.open_slots()}
        self._calls = {key: slot.prior for key, slot in self._open.items() if slot.prior is not None}
        self._hook_reported: set[tuple[int, str]] = set()
        """calls that a hook reported"""
        self._hooked: dict[str, Prior] = {}
        self._once: dict[str, Prior] = {}
        self._older = (0, 0)
        """as of the step that is read: see `take`"""
        self._shared_doubts: set[str] = set()
        """`once` keys that were in doubt where a fork began: what its ancestors recorded about them later counts too"""

    def take(
        self,
        step: Step,
        changes: Changes,
        *,
        left_at: int,
        shared: int | None,
        older: tuple[int, int] = (0, 0),
        whole: bool = True,
    ) -> None:
        """Read one invisible step; steps come in order of seq, the oldest ancestor's first.

        `left_at` is the visible step at which its branch was left. `shared`: it is a step of a fork's ancestor, whose
        `once` keys are not the fork's, except those that began up to this seq; None: a step of the session itself.
        `older`: of the steps up to the first number, which older sessions stored, those up to the second were in view
        of the ancestor when it recorded this; an effect that began in others is none that it knew. Not `whole`: it
        fails its digest, so its results are not trusted.
        """
        self._older = older
        for outcome in changes.outcomes if whole else ():
            entry = self._entry_of(outcome, left_at, shared)
            if entry is not None and not (shared is not None and _lets_run_again(outcome)):
                self._end(*entry, outcome, step)
        for message in changes.messages if whole and self._by_id else ():
            self._read_answers(message, step, left_at)
        for intent in changes.intents:
            entry = self._entry_of(intent, left_at, shared)
            if entry is not None:
                self._begin(*entry, intent, step)

    def _entry_of(
        self, record: Intent | Outcome, left_at: int, shared: int | None
    ) -> tuple[dict[Any, Prior], Any] | None:
        """The table and key for this record. A hook reports only the call's id: it means the call that its branch
        contains."""
        if record.asked_seq > 0:
            key = (record.asked_seq, record.id)
            is_shared = shared is None or record.asked_seq <= shared  # both go on with the same numbers after a fork
            return (self._calls, key) if is_shared and key in self._open else None
        slot, effect = self._by_id.get(record.id), self._fold.hooked.get(record.id)
        hooked = isinstance(record, Intent) and record.hooked
        if slot is not None and left_at >= slot.asked_seq:
            key = (slot.asked_seq, slot.site.id)
            if hooked or (slot.intent is not None and slot.intent.hooked):
                self._hook_reported.add(key)
            if key in self._hook_reported:
                return self._calls, key
        if effect is not None and left_at >= effect.intent_seq:
            return self._hooked, record.id
        if hooked:
            return None
        if shared is not None and not self._is_in_doubt(record.id, shared):
            return None
        if shared is not None:
            self._shared_doubts.add(record.id)
        return self._once, record.id

    def _is_in_doubt(self, key: str, upto: int) -> bool:
        """Whether a `once` effect is in doubt since a step up to this one. What began later was begun by a younger
        session, under a key of its own. (A reset records again what it carries, with all that was known from older
        ancestors.)"""
        here, known = self._fold.once.get(key), self._once.get(key)
        if here is not None and here.outcome is None and here.intent_seq <= upto:
            begins, in_view = self._older
            # A fork that was made from before the intent has run an effect of its own under the same key.
            return here.intent_seq > begins or here.intent_seq <= in_view
        # An ancestor that tried again after the fork has a later intent for the same doubt: follow it to its outcome.
        return known is not None and known.in_doubt and (known.intent_seq <= upto or key in self._shared_doubts)

    def take_carried(self, step: Step, carried: Carried) -> None:
        """Read the `once` effects that a reset carried over, where a fork began with that reset in view.

        The steps that recorded them may be on a branch that the ancestor had abandoned before the fork. Such branches
        are not the fork's own, so without the reset the fork would forget the effect once it is rewound to before it.
        """
        for key, content in carried.once.items():
            generation, before = carried.generations.get(key, 1), self._once.get(key)
            if before is None or (before.outcome is None and before.generation <= generation):
                intent = Intent(id=key, name=key, effect="once", generation=generation)
                self._begin(self._once, key, intent, step)
                self._end(self._once, key, Outcome(id=key, content=content, generation=generation), step)
        for intent in carried.open:
            if not intent.is_call and not intent.hooked and intent.id not in self._once:
                self._begin(self._once, intent.id, intent, step)

    def _begin(self, table: dict[Any, Prior], key: Any, intent: Intent, step: Step) -> None:
        before = table.get(key)
        if before is not None and intent.generation < before.generation:
            return
        table[key] = Prior(
            generation=intent.generation,
            session=before.session if before is not None else "",
            effect=intent.effect,
            begun=True,
            intent_seq=step.seq,
            started_us=step.at_us,
            at=f"{step.session}@{step.seq}",
        )

    def _end(self, table: dict[Any, Prior], key: Any, outcome: Outcome, step: Step) -> None:
        before = table.get(key) or Prior()
        here = f"{step.session}@{step.seq}"
        if outcome.status == "void":
            generation = max(outcome.generation, before.generation)
            session = step.session if outcome.generation > 1 else before.session
            table[key] = Prior(generation=generation, session=session, at=here)
            return
        # A synthetic "unknown" or "error" is a text for the model. It says nothing about the effect, which may have
        # happened all the same.
        is_notice = outcome.synthetic and outcome.status in ("unknown", "error")
        if is_notice or outcome.generation < before.generation:
            return
        table[key] = msgspec.structs.replace(
            before,
            generation=max(outcome.generation, before.generation),
            effect=before.effect or outcome.effect,
            outcome=outcome,
            at=outcome.carried_from or here,
        )

    def _read_answers(self, message: Any, step: Step, left_at: int) -> None:
        """Results in messages that a program, or an agent's own transcript, added to the conversation."""
        format = self._fold.format
        if not isinstance(message, dict) or format.is_assistant(message):
            return
        slots = [slot for one in format.answers(message) if (slot := self._by_id.get(one)) is not None]
        if not slots:
            return
        blocks = [block for view in format.read([message]) for block in view.blocks if isinstance(block, Result)]
        for slot in slots:
            found = next((block for block in blocks if block.call == slot.site.id), None)
            if found is None or found.synthetic or left_at < slot.asked_seq:
                continue
            key = (slot.asked_seq, slot.site.id)
            before = self._calls.get(key)
            if before is None or before.outcome is None:  # a recorded outcome is better than its rendering
                outcome = Outcome(id=slot.site.id, status=found.status, content=found.text)
                self._calls[key] = msgspec.structs.replace(
                    before or Prior(), begun=True, outcome=outcome, at=f"{step.session}@{step.seq}"
                )

    # -- attaching ------------------------------------------------------------------------------------------------

    def attach(self, owner: str, names: Mapping[str, str]) -> None:
        """Give each open call and `once` key what is known about it. `owner` is the session that is loaded."""
        for asked, slot in self._open.items():
            self._attach_call(slot, self._calls.get(asked), owner, names)
        for key, prior in self._once.items():
            self._attach_once(key, prior, owner)
        for key, prior in self._hooked.items():
            if prior.outcome is not None:
                self._fold.hooked[key] = msgspec.structs.replace(self._fold.hooked[key], outcome=prior.outcome)

    def _attach_call(self, slot: Slot, prior: Prior | None, owner: str, names: Mapping[str, str]) -> None:
        if prior is not None and prior.generation < slot.generation:
            prior = None
        if prior is not None:
            slot.generation, slot.session = prior.generation, prior.session or slot.session
            if not prior.begun and slot.intent is None and not _is_decided(prior.outcome):
                prior = None  # it was refused before it began, or may run again
            elif not prior.begun and prior.outcome is None:
                if _is_newer(prior, slot.intent_seq, owner):  # voided on another branch
                    slot.intent = slot.intent_seq = slot.started_us = None
                prior = None
        if slot.session != owner:
            belongs_to = names.get(slot.session, slot.session)
            prior = msgspec.structs.replace(prior or Prior(generation=slot.generation), belongs_to=belongs_to)
        slot.prior = prior

    def _attach_once(self, key: str, prior: Prior, owner: str) -> None:
        fold = self._fold
        here, generation = fold.once.get(key), fold.generations.get(key, 1)
        if prior.generation < generation:
            return
        if prior.generation == generation and here is not None:
            knows_more = prior.outcome is not None or _is_newer(prior, here.intent_seq, owner)
            if here.outcome is not None or not knows_more:
                return
        if prior.generation > 1:
            fold.generations[key] = prior.generation
        if not prior.begun and prior.outcome is None:
            fold.once.pop(key, None)
            return
        intent = Intent(id=key, name=key, effect="once", generation=prior.generation)
        fold.once[key] = Effect(
            intent=here.intent if here is not None else intent,
            intent_seq=here.intent_seq if here is not None else prior.intent_seq,
            started_us=here.started_us if here is not None else prior.started_us,
            outcome=prior.outcome,
            carried_from=prior.at,
        )


def _is_newer(prior: Prior, intent_seq: int | None, owner: str) -> bool:
    """Whether it was recorded after the visible intent. Records of an ancestor precede everything of the fork
    itself."""
    session, _, seq = prior.at.rpartition("@")
    return intent_seq is None or (session == owner and seq != "" and int(seq) > intent_seq)


def _lets_run_again(outcome: Outcome) -> bool:
    """A decision of the session it was made in; for a fork it says nothing about what happened."""
    return outcome.status == "void" and outcome.generation > 1


def _is_decided(outcome: Outcome | None) -> bool:
    """An outcome of an effect that is not known to have begun counts if a person settled it, or if it was carried
    over."""
    return outcome is not None and (outcome.synthetic or bool(outcome.carried_from))


# -- deciding ---------------------------------------------------------------------------------------------------------


def action_for(slot: Slot, effect: Declared | None = None) -> Action:
    """What to do about an open call, whose tool is now declared as `effect`, when the session continues."""
    prior = slot.prior
    if prior is not None and prior.belongs_to:
        return "carry" if prior.outcome is not None else "not_run_here"
    began_as = slot.intent.effect if slot.intent is not None else prior.effect if prior is not None else None
    if prior is not None and prior.outcome is not None and {effect, began_as} & _AT_MAX_ONCE:
        return "carry"
    if prior is not None and prior.outcome is not None and effect is None and began_as is None:
        return "carry"  # the program ran it itself, and it is not declared that it may run twice
    if slot.intent is None and (prior is None or not prior.begun):
        return "run"
    declared = effect or began_as
    if declared in ("pure", "idempotent"):
        return "run_again"
    return "probe" if declared == "probe" else "tell_unknown"


def carried_outcome(slot: Slot) -> Outcome:
    """The outcome known from elsewhere, as it is recorded here."""
    prior = slot.prior
    assert prior is not None and prior.outcome is not None
    effect = slot.intent.effect if slot.intent is not None else prior.effect
    return msgspec.structs.replace(
        prior.outcome, asked_seq=slot.asked_seq, carried_from=prior.at, effect=effect, generation=prior.generation
    )


def closing_outcome(slot: Slot) -> Outcome:
    """The outcome recorded for an open call that will not run here."""
    prior = slot.prior
    if prior is not None and prior.outcome is not None:
        return carried_outcome(slot)
    if prior is not None and prior.belongs_to:
        return notice(slot, "unknown", f"{NOT_RUN_HERE}{prior.belongs_to}")
    if slot.in_doubt:
        return notice(slot, "unknown", OUTCOME_UNKNOWN)
    return notice(slot, "error", NOT_RUN)


def notice(slot: Slot, status: Literal["unknown", "error"], text: str) -> Outcome:
    """An outcome that relight writes instead of the tool's, for the model to read."""
    return Outcome(id=slot.site.id, asked_seq=slot.asked_seq, status=status, content=text, synthetic=True)


def next_generation(slot: Slot) -> int:
    """The generation of a run that is allowed now; unchanged if the effect certainly never began."""
    began = slot.intent is not None or slot.prior is not None
    return slot.generation + 1 if began else slot.generation
