"""The loss report: what a conversion dropped, changed, cut or added. Computed, not declared: what was written for the
target is read back by the target's own reader and compared with what was given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from relight.values.view import Block, Call, Image, Message, Result, Text

LossKind = Literal["dropped", "changed", "cut", "added"]
_ALIGNED: Final = 4000
"""messages that are aligned one by one; of longer differences only the number is reported"""


class Loss(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One kind of difference between the conversation and what the target is given of it."""

    kind: LossKind
    what: str
    """in plain words: `reasoning of the model`, `argument timeout of shell`"""
    count: int = 1


class LossReport:
    """Counts differences by kind."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[LossKind, str]] = Counter()

    def add(self, kind: LossKind, what: str, count: int = 1) -> None:
        """One more, or so many."""
        if count:
            self._counts[kind, what] += count

    def extend(self, losses: Iterable[Loss]) -> None:
        """Add those of another report."""
        for loss in losses:
            self.add(loss.kind, loss.what, loss.count)

    def losses(self) -> list[Loss]:
        """The report, in a fixed order."""
        return sorted(Loss(kind=kind, what=what, count=count) for (kind, what), count in self._counts.items())


def differences(given: Sequence[Message], read: Sequence[Message]) -> list[Loss]:
    """What the target's reader sees otherwise than it was given."""
    report = LossReport()
    before, after = [_comparable(one) for one in given], [_comparable(one) for one in read]
    start = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    before, after = before[start:], after[start:]
    if max(len(before), len(after)) > _ALIGNED:
        report.add("changed", "message", max(len(before), len(after)))
        return report.losses()
    keys = [[msgspec.json.encode(one) for one in side] for side in (before, after)]
    from difflib import SequenceMatcher  # the command line imports this module at every start

    for tag, a, b, c, d in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        if tag != "equal":
            _compare(before[a:b], after[c:d], report)
    return report.losses()


def _compare(before: Sequence[Message], after: Sequence[Message], report: LossReport) -> None:
    pairs = min(len(before), len(after))
    for was, now in zip(before[:pairs], after[:pairs], strict=True):
        if was.role != now.role:
            report.add("changed", f"role of a message: {was.role} became {now.role}")
        _compare_blocks(was, now, report)
    for lost in before[pairs:]:
        report.add("dropped", f"message of the {lost.role}")
    for made in after[pairs:]:
        report.add("added", f"message of the {made.role}")


def _compare_blocks(was: Message, now: Message, report: LossReport) -> None:
    before, after = list(was.blocks), list(now.blocks)
    if len(before) != len(after) or any(type(a) is not type(b) for a, b in zip(before, after, strict=True)):
        kept = [msgspec.json.encode(block) for block in after]
        for block in before:
            if (key := msgspec.json.encode(block)) in kept:
                kept.remove(key)
            else:
                report.add("dropped", _name(block))
        report.add("added", "content of a message", len(kept))
        return
    for a, b in zip(before, after, strict=True):
        if a != b:
            _compare_block(a, b, report)


def _compare_block(was: Block, now: Block, report: LossReport) -> None:
    if isinstance(was, Call) and isinstance(now, Call):
        if (was.name, was.id) != (now.name, now.id):
            report.add("changed", "name or id of a call")
        before, after = _arguments(was), _arguments(now)
        for name in sorted({*before, *after}):
            if name not in after:
                report.add("dropped", f"argument {name} of {was.name}")
            elif before.get(name, ...) != after[name]:
                report.add("changed", f"argument {name} of {was.name}")
    elif isinstance(was, Result) and isinstance(now, Result):
        if was.status != now.status:
            report.add("changed", f"status of a result: {was.status} became {now.status}")
        if was.text != now.text:
            report.add("cut" if len(now.text) < len(was.text) else "changed", "text of a result")
    elif isinstance(was, Text) and isinstance(now, Text):
        report.add("cut" if len(now.text) < len(was.text) else "changed", "text of a message")
    else:
        report.add("changed", _name(was))


def _arguments(call: Call) -> dict[str, Any]:
    return call.arguments if isinstance(call.arguments, dict) else {"input": call.arguments}


def _name(block: Block) -> str:
    if isinstance(block, Call):
        return f"call of {block.name}"
    return {Text: "text of a message", Image: "image", Result: "result of a call"}.get(type(block), "reasoning")


def _comparable(message: Message) -> Message:
    """Without what differs in every format: the position, and who wrote a result."""
    blocks = tuple(
        msgspec.structs.replace(block, synthetic=False) if isinstance(block, Result) else block
        for block in message.blocks
    )
    return Message(role=message.role, blocks=blocks, index=0)
