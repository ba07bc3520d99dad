"""What the first reply after a resume would read: the provider's own count where there is one, else the length."""

from __future__ import annotations

from typing import Any

import pytest

from relight.journal.conversation.first_reply import first_reply, length_of
from relight.journal.fold import Fold
from relight.values.checkpoint import at
from relight.values.info import FirstReply
from relight.values.step import Carried, Changes, Step
from relight.values.usage import Usage

SECOND = 1_000_000


def step(seq: int, kind: Any = "message") -> Step:
    return Step(session="s", seq=seq, kind=kind, at_us=seq * SECOND, attempt=1, base=seq - 1, since=0, message_count=0,
                turns=0, open=(), label=None, key=b"", digest=b"", body=b"")  # fmt: skip


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


def folded(*changes: Changes) -> Fold:
    fold = Fold("anthropic")
    for seq, one in enumerate(changes, 1):
        fold.apply(step(seq), one)
    return fold


def read(fold: Fold, *, after: float = 0.0, provider: str | None = "anthropic") -> FirstReply:
    found = first_reply(fold, provider=provider, now_us=round((fold.seq + after) * SECOND), cache_minutes=5)
    assert found is not None
    return found


ASKED = Changes(messages=[said("user", "x" * 400)])
REPLY = Changes(
    messages=[said("assistant", "yes")],
    usage=Usage(input_tokens=100, cache_read_tokens=9_000, cache_write_tokens=800, output_tokens=100, cost=0.01),
)


def test_nothing_said_is_nothing_to_read() -> None:
    assert first_reply(folded(), provider="anthropic", now_us=0, cache_minutes=5) is None


def test_without_a_count_the_length_is_taken_and_said_to_be() -> None:
    found = read(folded(ASKED))
    assert (found.tokens, found.counted, found.cold, found.cost) == (100, False, None, None)


def test_the_count_of_the_last_reply_and_the_length_of_what_came_after() -> None:
    found = read(folded(ASKED, REPLY, Changes(messages=[said("user", "y" * 40)])))
    assert (found.tokens, found.counted) == (10_000 + 10, True)


@pytest.mark.parametrize(("after", "cold"), [(299.0, False), (301.0, True)])
def test_a_cache_is_cold_when_its_time_is_over_and_that_costs_more(after: float, cold: bool) -> None:
    found = read(folded(ASKED, REPLY), after=after)
    assert found.cold is cold and found.replied_at == at(2 * SECOND) and found.cost is not None
    price = 0.01 / (100 + 900 + 1000 + 500)
    assert found.cost == pytest.approx(price * ((12_500 if cold else 1_000) + 500))


def test_what_nobody_priced_or_can_be_compared_has_no_price() -> None:
    assert read(folded(ASKED, REPLY), provider="openai").cost is None
    unpriced = Changes(messages=REPLY.messages, usage=Usage(input_tokens=5, output_tokens=1))
    assert read(folded(ASKED, unpriced)).cost is None


def test_the_sum_over_several_replies_says_nothing_of_the_length() -> None:
    many = Changes(messages=[said("assistant", "a" * 40), said("user", "b" * 40), said("assistant", "c" * 40)],
                   usage=Usage(input_tokens=1_000_000))  # fmt: skip
    assert read(folded(many)).tokens == 30


def test_a_reply_told_in_parts_is_one_reply() -> None:
    rest = Changes(usage=Usage(output_tokens=50))
    assert read(folded(ASKED, REPLY, rest)).tokens == 10_050


def test_after_a_compaction_only_what_is_left_is_read() -> None:
    fold = folded(ASKED, REPLY)
    fold.apply(step(3, "reset"), Changes(messages=[said("user", "z" * 80)], carried=Carried()))
    assert (read(fold).tokens, read(fold).counted) == (20, False)


def test_a_picture_is_not_counted_by_its_letters() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 1_000_000}}
    assert length_of([{"role": "user", "content": [picture]}], "anthropic") == 1500
