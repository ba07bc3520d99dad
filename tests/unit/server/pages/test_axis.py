"""The time axis: what took how long, drawn true, also while it goes on; and attempts alike as one line."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from relight.history.narration import Row
from relight.server.pages.history import view_of
from relight.server.pages.plots import Span
from relight.server.pages.timeline.axis import FOLDED_TO, Axis
from relight.server.pages.timeline.collapsed_attempts import groups_of
from relight.server.pages.timeline.outline import outline_of
from tests.support.server_harness import ServerHarness


def span(activity: Any, begins: float, ends: float) -> Span:
    return Span(activity=activity, seq=1, begins=begins, ends=ends)


def row(word: str, at: float, **more: Any) -> Row:
    return Row(seq=1, at=datetime.fromtimestamp(at, UTC), word=word, text=more.pop("text", ""), **more)


WORK = [span("model", 100, 110), span("tools", 110, 150), span("person", 150, 3750), span("model", 3750, 3760)]


def test_idle_time_is_folded_and_what_ended_never_moves() -> None:
    axis = Axis(WORK, [], origin=100, is_open=False)
    assert [axis.x(at) for at in (100, 110, 150, 3750, 3760)] == pytest.approx([0, 10, 50, 50 + FOLDED_TO, 70])
    assert axis.x(1950) == pytest.approx(50 + FOLDED_TO / 2), "half of a fold is half of its width"
    assert axis.caption == "1 h 1 min; 1 h of idle time folded"
    later = Axis([*WORK, span("dead", 3760, 9999), span("model", 9999, 10_000)], [], origin=100, is_open=False)
    assert [later.x(at) for at in (100, 150, 3760)] == pytest.approx([axis.x(at) for at in (100, 150, 3760)])
    earlier = Axis([span("model", 90, 100), *WORK], [], origin=100, is_open=False)
    assert (earlier.low, earlier.x(150)) == pytest.approx((-10, 50)), "earlier rows are left of the origin"


def test_each_row_has_its_bar_and_what_is_open_ends_now() -> None:
    axis = Axis([*WORK[:2], span("person", 150, 170)], [100], origin=100, is_open=True)
    (reply,) = axis.bars(row("model", 110, seconds=10.0))
    (call,) = axis.bars(row("tool", 110, seconds=40.0, begins=True, mark="✓"))
    (running,) = axis.bars(row("tool", 120, begins=True, mark="…"))
    (waits,) = axis.bars(row("status", 150, waits=True))
    (attempt,) = axis.bars(row("start", 100, rule=True))
    found = [(one.kind, one.x, one.width, one.open) for one in (reply, call, running, waits, attempt)]
    assert found == [
        ("model", 0, 10, False),
        ("tools", 10, 40, False),
        ("tools", 20, 50, True),
        ("person", 50, 20, True),
        ("attempt", 0, 70, True),
    ]
    assert axis.bars(row("user", 100)) == []


def test_an_attempt_ends_where_nobody_works_or_the_next_begins() -> None:
    spans = [span("model", 0, 10), span("dead", 10, 20), span("model", 20, 30)]
    axis = Axis(spans, [0, 20, 25], origin=0, is_open=False)
    assert [axis.bars(row("start", at, rule=True))[0].width for at in (0, 20, 25)] == [10, 5, 5]


def test_a_part_can_be_shown_and_ticks_lie_within_it() -> None:
    axis = Axis(WORK, [], origin=100, is_open=False, zoom=(3750, 110))
    assert (axis.low, axis.high) == pytest.approx((10, 60)) and axis.view == "10.000 0 50.000 10"
    assert [(one.text, one.fold) for one in axis.ticks() if one.fold] == [("1 h", True)]
    assert all(axis.low <= one.x <= axis.high for one in axis.ticks())
    assert Axis([], [], origin=5, is_open=False).ticks() == []
    within = axis.zooms()
    assert set(within) == {"in"} and float(within["in"].partition("-")[2]) == pytest.approx(3750, abs=1)


@pytest.mark.parametrize(("pixels", "narrow"), [(112, True), (150, False), (250, False)])
def test_texts_of_the_axis_have_room_on_it_and_beside_each_other(pixels: int, narrow: bool) -> None:
    """At 1024, 1280 and 1440 pixels of the page; a text is at most 55 pixels wide, 3 from its mark."""
    random = Random(7)
    for _ in range(300):
        begins, spans = random.uniform(1e9, 1e9 + 1e5), []
        for _ in range(random.randint(1, 6)):
            ends = begins + random.choice([0.02, 1, 8.6, 60, 900, 20_000]) * random.uniform(0.5, 2)
            spans.append(span(random.choice(["model", "tools", "person", "dead"]), begins, ends))
            begins = ends
        axis = Axis(spans, [], origin=spans[0].begins, is_open=False)
        shown = [one for one in axis.ticks() if one.text and not (narrow and one.near)]
        edges = [(axis.percent(one.x) / 100 * pixels, one.before) for one in shown]
        texts = sorted((mark - 58, mark - 3) if before else (mark + 3, mark + 58) for mark, before in edges)
        assert all(left >= -5 and right <= pixels + 8 for left, right in texts), (spans, texts)
        assert all(left[1] <= right[0] for left, right in pairwise(texts)), (spans, texts)


def test_attempts_alike_are_one_line_and_the_newest_stays() -> None:
    def attempt(number: int, said: str = "overloaded (529)") -> list[Row]:
        return [
            row("resume", number, rule=True, text=f"attempt {number}, resumed from @{2 * number}"),
            row("status", number, text=said, mark="✗"),
        ]

    rows = [one for number in range(144) for one in attempt(number)]
    first, last = groups_of(rows)
    assert (first.attempts, len(first.rows), first.text) == (143, 286, "overloaded (529)")
    assert (last.attempts, len(last.rows)) == (0, 2)
    mixed = [*attempt(1), *attempt(2, "auth"), *attempt(3), row("user", 9, text="hi")]
    assert [one.attempts for one in groups_of(mixed)] == [0, 0, 0]
    assert [one for group in groups_of(mixed) for one in group.rows] == mixed and groups_of([]) == []


def test_a_waiting_session_shows_its_wait_and_a_live_page_keeps_its_scale(harness: ServerHarness) -> None:
    s = harness.rl.session("axis", provider="anthropic")
    s.append({"role": "user", "content": "go"})
    s.append({"role": "assistant", "content": [{"type": "text", "text": "ok"}]})
    client = harness.client("read")
    page = client.get(f"/sessions/{s.id}", headers={"accept": "text/html"}).text
    assert 'class="attempt open"' in page and 'class="model"' in page and 'data-low="0.000"' in page
    news = client.get(f"/sessions/{s.id}/news?after=3&from=0&density=turns&show=all&origin=0").text
    bar = page.partition('class="model"')[2].partition("/>")[0]
    assert bar in news, "what a paint draws is what the page drew"
    s.close()


def test_a_long_session_is_not_read_again_for_each_page(
    harness: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = harness.rl.session("long", provider="openai")
    for number in range(30):
        s.append({"role": "user", "content": f"{number}"})
    first = outline_of(harness.rl, harness.rl.sessions.get("long"))
    assert first.upto == 31 and not first.turned and first.attempted == 1
    read: list[int] = []
    rows = harness.rl.store.checkpoints

    def counted(session: str, **bounds: Any) -> Any:
        found = list(rows(session, **bounds))
        read.append(len(found))
        return found

    monkeypatch.setattr(harness.rl.store, "checkpoints", counted)
    s.append({"role": "user", "content": "more"})
    assert outline_of(harness.rl, harness.rl.sessions.get("long")).upto == 32 and sum(read) == 2
    s.close()
    assert view_of(harness.rl, harness.rl.sessions.get("long")) is None
    harness.rl.history.rewind("long@10")
    view = view_of(harness.rl, harness.rl.sessions.get("long"))
    assert view is not None and set(range(1, 11)) <= view and not view & set(range(11, 33))
