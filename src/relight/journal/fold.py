"""The fold: the state of a session (messages, calls, state, effects, answers), computed from its steps.

Only visible steps are folded (lineage.py), from the last reset on. Results that relight recorded are stored as outcomes
and rendered here in the provider's own form and grouping, in the order of the calls, whatever order they ended in.
Nothing is repaired: an open call stays open until an outcome closes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, Final, Literal

import msgspec

from relight.journal.conversation.dialogue import Dialogue
from relight.journal.formats.format import CallSite, Format
from relight.journal.formats.registry import detect, recognised
from relight.values.call import Asked, Call, Intent, Outcome, Prior
from relight.values.checkpoint import at
from relight.values.step import Carried, Changes, Step
from relight.values.usage import Usage

_TRIAL: Final = Step("", 0, "message", 0, 0, 0, 0, 0, 0, (), None, b"", b"", b"")
"""a step that is never stored, to compute the effect of a change"""
MAX_PARTIALS: Final = 1_000
"""partial results held in memory and carried over resets; older ones remain in the journal"""


class Slot(msgspec.Struct, eq=False):
    """One tool call and what is known about it; updated while the session is folded."""

    site: CallSite
    session: str
    asked_seq: int
    intent: Intent | None = None
    intent_seq: int | None = None
    started_us: int | None = None
    outcome: Outcome | None = None
    result_seq: int | None = None
    ended_us: int | None = None
    carrier: dict[str, Any] | None = None
    """a message appended by the caller that contains the result"""
    generation: int = 1
    prior: Prior | None = None
    """what is known about it from steps that are not visible (journal/effects/ledger.py)"""

    @property
    def is_open(self) -> bool:
        return self.outcome is None and self.carrier is None

    @property
    def in_doubt(self) -> bool:
        """Begun, here or on an abandoned branch, and not known to have ended."""
        if not self.is_open or (self.prior is not None and self.prior.outcome is not None):
            return False
        return self.intent is not None or (self.prior is not None and self.prior.begun)

    @property
    def key(self) -> str:
        generation = f"/{self.generation}" if self.generation > 1 else ""
        return f"{self.session}:{self.asked_seq}:{self.site.id}{generation}"

    @property
    def effect_key(self) -> tuple[int, str]:
        """(asked_seq, id) under which a head lists it while it is open."""
        return (self.intent.asked_seq if self.intent is not None else self.asked_seq, self.site.id)


class _Group(msgspec.Struct, eq=False):
    """The calls of one reply, and the run of messages that holds their recorded results."""

    start: int
    length: int = 0
    slots: list[Slot] = []
    loose: list[dict[str, Any]] = []
    """the caller's own messages with results, still where the caller put them"""
    carriers: list[dict[str, Any]] = []
    """the same, moved into the run because recorded results must share a message with theirs"""

    def open_slot(self, call_id: str) -> Slot | None:
        """The call with this id, if it has no result yet."""
        for slot in self.slots:
            if slot.site.id == call_id and slot.is_open:
                return slot
        return None


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The newest reply whose prompt size was reported by the provider."""

    tokens: int
    """prompt and output: the size of the conversation so far"""
    messages: int
    """number of messages of the fold that it covers"""
    at_us: int
    usage: Usage


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """A `once` effect: begun, and perhaps ended."""

    carried_from: str = ""
    """the step that recorded it, if that step is not visible"""

    intent: Intent
    intent_seq: int
    started_us: int | None = None
    outcome: Outcome | None = None
    result_seq: int | None = None
    ended_us: int | None = None


class Fold(Dialogue):
    """The state that the visible steps add up to. `apply` them in order."""

    def __init__(self, provider: str | None = None) -> None:
        super().__init__()
        self.messages: list[dict[str, Any]] = []
        self.state: dict[str, Any] = {}
        self.once: dict[str, Effect] = {}
        self.generations: dict[str, int] = {}
        """of `once` keys that were allowed to run again"""
        self.hooked: dict[str, Effect] = {}
        """effects reported by an agent's hook, until the call itself is in the conversation"""
        self.tools: dict[str, str] = {}
        self.children: dict[str, str] = {}
        """children that were spawned, by their own names: the ids of their sessions"""
        self.partials: list[Any] = []
        """partial results, oldest first; the newest `MAX_PARTIALS` of them"""
        self.streamed: list[str] = []
        """text of the reply in progress, in parts, until the reply is there"""
        self.result: Any = None
        self.turns = 0
        self.measured: Measured | None = None
        self.seq = 0
        self._provider = provider
        self._format: Format | None = None
        self._plain: dict[str, Any] | None = None
        """the newest message that fits every format: examined with its draft, and not again when it is applied"""
        self._slots: dict[tuple[int, str], Slot] = {}
        self._groups: list[_Group] = []
        """groups with an open call; the last one may still grow if a reply spans messages"""

    # -- what it adds up to -----------------------------------------------------------------------------------

    @property
    def format(self) -> Format:
        """The format of the conversation, detected or assumed."""
        return self._format or detect((), self._provider)

    @property
    def partial(self) -> Any:
        """The text of the reply in progress, else the newest partial result, if any."""
        if self.streamed:
            return "".join(self.streamed)
        return self.partials[-1] if self.partials else None

    @property
    def has_open(self) -> bool:
        """Whether a call has no result."""
        return bool(self._groups)

    @property
    def recognised(self) -> Format | None:
        """The format, if a message has shown it."""
        return self._format

    def format_with(self, messages: Iterable[dict[str, Any]]) -> Format:
        """The format after these messages: the first ones may be what shows it."""
        if self._format is not None:
            return self._format
        shown = (format for message in messages if (format := self._recognise(message)) is not None)
        return next(shown, None) or detect((), self._provider)

    def _recognise(self, message: dict[str, Any]) -> Format | None:
        """The format that this message can only be of, if there is one."""
        if message is self._plain:
            return None
        found = recognised(message)
        if found is None:
            self._plain = message
        return found

    def open_slots(self) -> list[Slot]:
        """Calls without a result, in the order they were requested."""
        return [slot for group in self._groups for slot in group.slots if slot.is_open]

    def slot(self, asked_seq: int, call_id: str) -> Slot | None:
        """The call with this id, requested at that step."""
        return self._slots.get((asked_seq, call_id))

    def slots(self) -> list[Slot]:
        """All visible calls, in order."""
        return list(self._slots.values())

    def calls(self, *, doubtful: bool) -> list[Call]:
        """All calls as users see them; `doubtful`: a started one without a result is in doubt."""
        return [as_call(slot, doubtful=doubtful) for slot in self._slots.values()]

    def carried(self, messages: Iterable[dict[str, Any]]) -> Carried:
        """What a reset to these messages must carry over."""
        ids = {site.id for message in messages for site in self.format.calls(message)}
        calls = [
            msgspec.structs.replace(slot.intent, session=slot.session)
            for slot in self.open_slots()
            if slot.intent is not None and slot.site.id in ids
        ]
        return Carried(
            state=dict(self.state),
            once={key: effect.outcome.content for key, effect in self.once.items() if effect.outcome is not None},
            open=calls + [one.intent for one in (*self.once.values(), *self.hooked.values()) if one.outcome is None],
            asked=[_asked(slot) for slot in self.open_slots() if slot.site.id in ids],
            generations=dict(self.generations),
            answers=dict(self.answers),
            tools=dict(self.tools),
            partial=self.partials[-1] if self.partials else None,
            partials=list(self.partials),
            answered=dict(self.answered),
            reasons=dict(self.reasons),
            asking=self.asking,
            prompt=self.prompt,
            prompts=sorted(self.prompts),
            prompt_from=self.prompt_from,
            prompt_given=self.prompt_given,
            children=dict(self.children),
        )

    def growth(self, changes: Changes) -> tuple[int, int]:
        """How many messages and turns these changes would add."""
        if self._groups and self._merges(changes):
            # Counting merged results exactly means doing the merge. Rare enough to pay for a copy; the rest of this
            # function counts without one, because it runs on every commit.
            trial = deepcopy(self)
            trial.apply(_TRIAL, changes)
            return len(trial.messages) - len(self.messages), trial.turns - self.turns
        format, messages = self._format, 0
        touched: dict[int, int] = {}
        for outcome in changes.outcomes:
            index = self._group_index(outcome)
            if index is not None and outcome.status != "void":
                touched[index] = touched.get(index, 0) + 1
        for index, added in touched.items():
            group = self._groups[index]
            messages += (1 if group.length == 0 else 0) if self.format.shares else added
        turns = 0
        previous = self.messages[-1] if self.messages and not touched else None
        for message in changes.messages:
            format = format or self._recognise(message)
            turns += _is_turn(format or self.format, previous, message)
            previous = message
        return messages + len(changes.messages), turns

    def _merges(self, changes: Changes) -> bool:
        """Whether results recorded by relight and results in the caller's own messages would share a message. Rare."""
        if not self.format.shares or not (changes.outcomes or any(group.length for group in self._groups)):
            return False
        closed = {index for outcome in changes.outcomes if (index := self._group_index(outcome)) is not None}
        answered = self.answered_by(changes.messages)
        return any(
            (index in closed and (group.loose or group.carriers or any(slot in group.slots for slot in answered)))
            or (group.length and any(slot in group.slots for slot in answered))
            for index, group in enumerate(self._groups)
        )

    # -- applying ---------------------------------------------------------------------------------------------

    def apply(self, step: Step, changes: Changes) -> None:
        """Add one visible step to the state."""
        if step.kind == "reset":
            self._reset(changes.carried or Carried())
        # Outcomes before messages: a reply in the same step closes the calls before it, and its own get new slots.
        for outcome in changes.outcomes:
            self._close(outcome, step)
        turns, replied, words = self.turns, False, None
        for message in changes.messages:
            role = self._add(message, step)
            if role == "assistant":
                replied = True
            elif role == "user":
                words = message
        if changes.usage is not None:
            self._measure(changes.usage, step, replies=self.turns - turns)
        if replied and self.streamed and not changes.stream:
            self.streamed = []
        if changes.tools is not None:
            self.tools = changes.tools
        if changes.messages and (replied or words or self.answers or self.answered) and step.kind != "reset":
            self._apply_messages(step, changes, replied=replied, words=words)
        # One look for everything that is rare: most steps have nothing but a message.
        if (
            changes.intents or changes.state or changes.unset or changes.children or changes.partial or changes.stream
            or changes.answer or changes.used or changes.status is not None or changes.carried is not None
        ):  # fmt: skip
            self._apply_rare(step, changes)
        elif self.answers:
            self._apply_delivery(step, changes)
        self.seq = step.seq

    def _apply_rare(self, step: Step, changes: Changes) -> None:
        """Add what a step has beside messages, outcomes and usage."""
        if changes.carried is not None:
            self._reopen(changes.carried, step)
        for intent in changes.intents:
            self._begin(intent, step)
        if changes.state:
            self.state.update(changes.state)
        for key in changes.unset:
            self.state.pop(key, None)
        if changes.children:
            self.children = {**self.children, **changes.children}
        if changes.partial:
            self.partials = [*self.partials, *changes.partial][-MAX_PARTIALS:]
        if changes.stream:
            begins, text = changes.stream
            self.streamed = [text] if begins else [*self.streamed, text]
        self._apply_answers(step, changes)
        if changes.status is not None:
            self.result = changes.status.result

    def _measure(self, usage: Usage, step: Step, *, replies: int) -> None:
        """The usage of one reply shows how long the conversation is; a sum over several does not."""
        prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        if replies > 1:
            return
        if prompt:
            tokens, messages = prompt + usage.output_tokens, len(self.messages)
            self.measured = Measured(tokens=tokens, messages=messages, at_us=step.at_us, usage=usage)
        elif self.measured is not None:  # a reply reported in parts: the rest of its output
            tokens, messages = self.measured.tokens + usage.output_tokens, len(self.messages)
            self.measured = msgspec.structs.replace(self.measured, tokens=tokens, messages=messages)

    def _reset(self, carried: Carried) -> None:
        self.messages, self.turns, self.measured, self.streamed, self.result = [], 0, None, [], None
        self._slots, self._groups = {}, []
        self._format, self._plain = None, None  # after a hand-over the messages are another agent's
        self.hooked = {}
        self.state = dict(carried.state)
        self._carry_over(carried)
        self.tools, self.children = dict(carried.tools), dict(carried.children)
        self.partials = carried.partials or ([carried.partial] if carried.partial is not None else [])

    def _reopen(self, carried: Carried, step: Step) -> None:
        """Effects carried over a reset: finished ones by key, open ones with the step they began at."""
        self.once = {
            key: Effect(
                intent=Intent(id=key, name=key, effect="once"),
                intent_seq=step.seq,
                outcome=Outcome(id=key, content=content),
            )
            for key, content in carried.once.items()
        }
        self.generations = dict(carried.generations)
        by_id = {slot.site.id: slot for slot in self.open_slots()}
        for one in carried.asked:
            if (slot := by_id.get(one.id)) is not None:
                self._move(slot, one.asked_seq, one.session)
                slot.generation, slot.prior = one.generation, one.prior
        for intent in carried.open:
            slot = by_id.get(intent.id) if intent.is_call else None
            if slot is not None:
                self._move(slot, intent.asked_seq, intent.session or slot.session)
            self._begin(intent, step)

    def _move(self, slot: Slot, asked_seq: int, session: str) -> None:
        del self._slots[slot.asked_seq, slot.site.id]
        slot.asked_seq, slot.session = asked_seq, session
        self._slots[asked_seq, slot.site.id] = slot

    def _add(self, message: dict[str, Any], step: Step) -> Literal["assistant", "user", ""]:
        """Add a message. Returns who said it; empty for results of tools, and for anything else."""
        if self._format is None:
            self._format = self._recognise(message)
        format = self.format
        if format.is_assistant(message):
            if not (format.spans and self.messages and format.is_assistant(self.messages[-1])):
                self.turns += 1
            self._ask(format, message, step)
            self.messages.append(message)
            if self._groups and self._groups[-1].start == len(self.messages) - 1:
                self._groups[-1].start += 1
            return "assistant"
        self.messages.append(message)
        answered = format.answers(message)
        if answered:
            self._answer(answered, message, step)
            return ""
        return "user" if message.get("role") == "user" else ""

    def _ask(self, format: Format, message: dict[str, Any], step: Step) -> None:
        sites = format.calls(message)
        if not sites:
            return
        group = self._groups[-1] if self._groups else None
        if group is None or not format.spans or group.start != len(self.messages) or group.length:
            group = _Group(len(self.messages))
            self._groups.append(group)
        for site in sites:
            if (step.seq, site.id) not in self._slots:
                slot = Slot(site, step.session, step.seq)
                self._slots[step.seq, site.id] = slot
                group.slots.append(slot)
                if self.hooked:
                    self._attach_hooked(slot)

    def answered_by(self, messages: Iterable[dict[str, Any]]) -> list[Slot]:
        """The open calls that these messages of the caller answer."""
        if not self._groups:
            return []
        ids = [call_id for message in messages for call_id in self.format.answers(message)]
        return [slot for slot in self.open_slots() if slot.site.id in ids]

    def _answer(self, call_ids: Iterable[str], message: dict[str, Any], step: Step) -> None:
        """A message of the caller with results. If others of the group are recorded already, they form one run."""
        touched = None
        for call_id in call_ids:
            for group in self._groups:
                slot = group.open_slot(call_id)
                if slot is not None:
                    slot.carrier, slot.result_seq, slot.ended_us = message, step.seq, step.at_us
                    touched = group
                    break
        if touched is None:
            return
        touched.loose.append(message)
        if touched.length:
            self._render(self._groups.index(touched))
        self._drop_closed_groups()

    def _attach_hooked(self, slot: Slot) -> None:
        """Attach what a hook reported before the call was in the conversation."""
        effect = self.hooked.pop(slot.site.id, None)
        if effect is not None:
            slot.intent, slot.intent_seq, slot.started_us = effect.intent, effect.intent_seq, effect.started_us
            slot.outcome, slot.result_seq, slot.ended_us = effect.outcome, effect.result_seq, effect.ended_us

    def _begin(self, intent: Intent, step: Step) -> None:
        if intent.hooked:
            slot = self._open_by_id(intent.id)
            if slot is None:
                self.hooked[intent.id] = Effect(intent=intent, intent_seq=step.seq, started_us=step.at_us)
            else:
                slot.intent, slot.intent_seq, slot.started_us = intent, step.seq, step.at_us
            return
        if not intent.is_call:
            if intent.generation > 1:
                self.generations[intent.id] = intent.generation
            self.once[intent.id] = Effect(intent=intent, intent_seq=step.seq)
            return
        slot = self._slots.get((intent.asked_seq, intent.id))
        if slot is not None:
            slot.intent, slot.intent_seq, slot.started_us = intent, step.seq, step.at_us
            slot.generation = intent.generation

    def _close(self, outcome: Outcome, step: Step) -> None:
        if outcome.asked_seq == 0:
            if not self._close_hooked(outcome, step):
                self._close_once(outcome)
            return
        index = self._group_index(outcome)
        slot = self._slots.get((outcome.asked_seq, outcome.id))
        if index is None or slot is None:
            return
        if outcome.status == "void":
            slot.intent = slot.intent_seq = slot.started_us = slot.prior = None
            if outcome.generation > 1:  # the session that allowed the retry runs it, not the one that requested it
                slot.generation, slot.session = outcome.generation, step.session
            return
        slot.outcome, slot.result_seq, slot.ended_us = outcome, step.seq, step.at_us
        slot.generation = max(slot.generation, outcome.generation)
        self._render(index)
        self._drop_closed_groups()

    def _close_hooked(self, outcome: Outcome, step: Step) -> bool:
        """Close an effect reported by a hook. No message is added: the agent writes the result itself."""
        slot = self._open_by_id(outcome.id)
        if slot is not None and slot.intent is not None and slot.intent.hooked:
            if outcome.status == "void":
                slot.intent = slot.intent_seq = slot.started_us = None
            else:
                slot.outcome, slot.result_seq, slot.ended_us = outcome, step.seq, step.at_us
                self._drop_closed_groups()
            return True
        effect = self.hooked.pop(outcome.id, None)
        if effect is not None and outcome.status != "void":
            ended = {"outcome": outcome, "result_seq": step.seq, "ended_us": step.at_us}
            self.hooked[outcome.id] = msgspec.structs.replace(effect, **ended)
        return effect is not None

    def _open_by_id(self, call_id: str) -> Slot | None:
        return next((slot for slot in self.open_slots() if slot.site.id == call_id), None)

    def _close_once(self, outcome: Outcome) -> None:
        effect = self.once.get(outcome.id)
        if outcome.generation > 1:
            self.generations[outcome.id] = outcome.generation
        if outcome.status == "void":
            self.once.pop(outcome.id, None)
        elif effect is not None:
            self.once[outcome.id] = msgspec.structs.replace(effect, outcome=outcome, carried_from="")
        elif outcome.carried_from or outcome.synthetic:  # begun on an abandoned branch
            intent = Intent(id=outcome.id, name=outcome.id, effect="once", generation=outcome.generation)
            self.once[outcome.id] = Effect(intent=intent, intent_seq=0, outcome=outcome)

    def _group_index(self, outcome: Outcome) -> int | None:
        slot = self._slots.get((outcome.asked_seq, outcome.id))
        if slot is None or not slot.is_open:
            return None
        return next((index for index, group in enumerate(self._groups) if slot in group.slots), None)

    def _render(self, index: int) -> None:
        """Render a group's results into its run of messages, in the order of the calls."""
        group = self._groups[index]
        while group.loose:
            self._move_into_run(group, group.loose.pop(0))
        rendered = self._rendered(group)
        self.messages[group.start : group.start + group.length] = rendered
        grown = len(rendered) - group.length
        group.length = len(rendered)
        for later in self._groups[index + 1 :]:
            later.start += grown

    def _move_into_run(self, group: _Group, message: dict[str, Any]) -> None:
        """Move a message of the caller into the run of the group."""
        at = next(i for i in range(group.start, len(self.messages)) if self.messages[i] is message)
        del self.messages[at]
        for later in self._groups:
            if later.start > at:
                later.start -= 1
        group.carriers.append(message)

    def _rendered(self, group: _Group) -> list[dict[str, Any]]:
        format = self.format
        fragments = [
            format.fragment(slot.site.result(slot.outcome.content, slot.outcome.status))
            if slot.outcome is not None and slot.outcome.status != "void"
            else _fragment_in(format, slot)
            for slot in group.slots
        ]
        present = [fragment for fragment in fragments if fragment is not None]
        carriers: list[dict[str, Any] | None] = [*group.carriers] or [None]
        carrier, *others = carriers
        rests = [rest for other in others if other is not None and (rest := format.split(other)[1]) is not None]
        return [*format.join(present, carrier), *rests] if present else []

    def _drop_closed_groups(self) -> None:
        self._groups = [group for group in self._groups if any(slot.is_open for slot in group.slots)]


def _fragment_in(format: Format, slot: Slot) -> dict[str, Any] | None:
    """The result in the caller's own message, in the provider's form."""
    if slot.carrier is None:
        return None
    return next((part for call_id, part in format.split(slot.carrier)[0] if call_id == slot.site.id), None)


def as_call(slot: Slot, *, doubtful: bool) -> Call:
    """A slot as users see it."""
    outcome = slot.outcome
    return Call(
        id=slot.site.id,
        name=slot.site.name,
        arguments=slot.site.parsed(),
        result=outcome.content if outcome is not None else None,
        success=None if slot.is_open else (outcome is None or outcome.status == "ok"),
        effect=_effect_of(slot),
        in_doubt=doubtful and slot.in_doubt,
        intent_seq=slot.intent_seq,
        result_seq=slot.result_seq,
        started_at=at(slot.started_us) if slot.started_us is not None else None,
        ended_at=at(slot.ended_us) if slot.ended_us is not None else None,
        asked_seq=slot.asked_seq,
        key=slot.key,
        carried_from=(outcome.carried_from or None) if outcome is not None else None,
    )


def _effect_of(slot: Slot) -> Any:
    """The effect as declared when the call began or ended; None if it never began."""
    if slot.intent is None and slot.outcome is None and slot.prior is None:
        return None
    known = [slot.intent, slot.outcome, slot.prior if slot.prior is not None and slot.prior.begun else None]
    return next((one.effect for one in known if one is not None and one.effect is not None), None)


def _asked(slot: Slot) -> Asked:
    return Asked(
        id=slot.site.id,
        asked_seq=slot.asked_seq,
        session=slot.session,
        generation=slot.generation,
        prior=slot.prior,
    )


def _is_turn(format: Format, previous: dict[str, Any] | None, message: dict[str, Any]) -> bool:
    """Whether a new reply begins here. If replies span messages, only the first of a run counts."""
    if not format.is_assistant(message):
        return False
    return not (format.spans and previous is not None and format.is_assistant(previous))
