"""One language for all doors: what a page says of a session is what the command line says of it."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relight.cli import list as cli_list
from relight.cli import words as cli_words
from relight.model.status import STATUSES
from relight.server.pages import words
from relight.server.pages.inert import finalize, inert, preview
from tests.pages.hostile import payloads
from tests.server.desk import Desk

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def test_every_status_has_the_same_glyph_and_role_as_on_the_command_line() -> None:
    assert words.GLYPHS == cli_words.GLYPHS
    assert set(words.GLYPHS) == set(STATUSES)


def test_numbers_read_the_same_on_a_page_and_on_the_command_line() -> None:
    for seconds in (0.04, 0.3, 5, 38, 99, 101, 3599, 3601, 90_000, 172_801, 9e6):
        assert words.age(seconds) == cli_words.age(seconds)
        assert words.lasting(seconds) == cli_words.lasting(seconds)
    for number in (0, 9, 10, 812, 999, 1000, 4_000, 38_000_000, 1_200_000_000, 2**50):
        assert words.size(number) == cli_words.size(number)
        assert words.tokens(number) == cli_words.tokens(number)
    for cost in (None, 0.0, 0.004, 1.84, 12_345.678):
        assert words.money(cost) == cli_words.money(cost)


def test_what_a_session_does_now_is_said_in_the_same_words(scene: Desk) -> None:
    """Check 12 of the experience page: one status function, and one sentence made of it."""
    infos = list(scene.rl.sessions())
    assert len({info.status for info in infos}) >= 6
    for info, hours in itertools.product(infos, (0, 3, 300)):
        now = info.updated_at + timedelta(hours=hours)
        assert words.now_text(info, now) == cli_list.now_text(info, now)


def test_a_place_is_short_and_the_home_is_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert words.place("/home/ann/src/shop") == "~/src/shop"
    assert words.short_place("/home/ann/src/shop") == "…/src/shop"
    assert words.place("/home/anna") == "/home/anna"
    assert words.short_place(None) == ""


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
