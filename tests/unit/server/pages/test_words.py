"""One language for all entry points: what a page says of a session is what the command line says of it."""

from __future__ import annotations

import itertools
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relight.cli.inspect.list import Listing, lines_of
from relight.cli.render.style import Style
from relight.errors import LimitReached
from relight.server.pages.sessions import line_of
from relight.server.reading.inert import finalize, inert, preview
from relight.text import format as words
from relight.values.info import SessionInfo
from relight.values.status import STATUSES
from tests.support.hostile_texts import payloads
from tests.support.server_harness import ServerHarness


def test_every_status_has_a_glyph_and_a_role() -> None:
    assert set(words.GLYPHS) == set(STATUSES)


@pytest.mark.parametrize(
    ("seconds", "column", "sentence"),
    [
        (0.04, "0.0s", "0.0 s"),
        (0.3, "0.3s", "0.3 s"),
        (5, "5s", "5.0 s"),
        (38, "38s", "38 s"),
        (101, "2m", "2 min"),
        (3601, "1h", "1 h"),
        (90_000, "25h", "25 h"),
        (172_801, "2d", "2 days"),
    ],
)
def test_times_read_as_people_write_them(seconds: float, column: str, sentence: str) -> None:
    assert (words.age(seconds), words.duration(seconds)) == (column, sentence)


def test_numbers_read_as_people_write_them() -> None:
    sizes = {0: "0 B", 812: "812 B", 1000: "1.0 kB", 38_000_000: "38 MB", 1_200_000_000: "1.2 GB"}
    assert {number: words.size(number) for number in sizes} == sizes
    assert [words.tokens(number) for number in (812, 184_000, 1_300_000)] == ["812", "184 k", "1.3 M"]
    assert [words.money(cost) for cost in (None, 0.0, 12_345.678)] == ["-", "$0.00", "$12,345.68"]


def test_what_a_session_does_now_is_said_in_the_same_words_at_both_doors(scene: ServerHarness) -> None:
    """Check 12 of the experience page: one status function, and one sentence made of it."""
    infos = list(scene.rl.sessions.list())
    assert len({info.status for info in infos}) >= 6
    for info, hours in itertools.product(infos, (0, 3, 300)):
        now = info.updated_at + timedelta(hours=hours)
        printed = lines_of(_alone(info), now=now, style=Style(width=2000), here="/nowhere")
        terminal = "".join(part if isinstance(part, str) else part.text for line in printed for part in line)
        page = line_of(info, now).now.removesuffix("…").rstrip()
        assert page and page in terminal


def _alone(info: SessionInfo) -> Listing:
    return Listing(sessions=[info], matching=1, more=False, archived=0, total=1, filtered=False, needing=[])


def test_a_place_is_short_and_the_home_is_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert words.display_path("/home/ann/src/shop") == "~/src/shop"
    assert words.short_path("/home/ann/src/shop") == "…/src/shop"
    assert words.display_path("/home/anna") == "/home/anna"
    assert words.short_path(None) == ""


@given(st.text())
def test_inert_text_shows_every_character_and_obeys_none(text: str) -> None:
    shown = inert(text)
    assert all(one.isprintable() or one in "\n\t\u200c\u200d" for one in shown)
    assert inert(shown) == shown
    if text.isprintable() and text.isascii():
        assert shown == text


def test_no_payload_keeps_a_control_or_a_direction_mark() -> None:
    for text in payloads():
        assert not set(inert(text)) & set("\x1b\x07\x9b\x00\u202e\u2066\u2069\u200b\ufeff")


def test_nothing_and_numbers_are_shown_as_people_write_them() -> None:
    assert (finalize(None), finalize(7), finalize("a\x1b")) == ("", "7", "a\\x1b")


def test_a_long_value_comes_as_its_beginning() -> None:
    assert preview("short") == ("short", False)
    lines, cut = preview("\n".join(map(str, range(100))))
    assert cut and lines.count("\n") == 39
    text, cut = preview("x" * 100_000)
    assert cut and len(text) == 8192


def test_a_session_halted_at_its_own_limit_is_not_in_quarantine_and_none_has_a_riddle_for_a_reason(
    tmp_path: Path,
) -> None:
    harness = ServerHarness(tmp_path / "p.db")
    with pytest.raises(LimitReached), harness.rl.session("spent", budget_tokens=10) as s:
        s.append({"role": "user", "content": "go"})
        s.append({"role": "assistant", "content": "gone"}, usage={"input_tokens": 100, "output_tokens": 1})
        s.run(lambda messages: {"role": "assistant", "content": "never"})
    with harness.rl.session("open") as s:
        s.append({"role": "user", "content": "go"})
    with harness.client() as client:
        client.headers["accept"] = "text/html"
        operations, listed = client.get("/operations").text, client.get("/").text
        header = client.get(f"/sessions/{harness.rl.sessions.get('spent').id}").text
    harness.close()
    assert "Halted (1)" in operations and "Quarantine" not in operations
    assert "left unfinished by its program" in operations and "left unfinished by its program" in listed
    assert 'class="stderr"' not in header, "the status line says it already"
