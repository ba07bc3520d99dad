"""Words, queries and blocks: nothing that is typed is an error, and a block forgets exactly what goes."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relight.errors import UsageError
from relight.journal.codec import encode_changes
from relight.journal.search import blocks
from relight.journal.search.names import named_text, searchable
from relight.journal.search.query import excerpt, parse
from relight.journal.search.words import MAX_CHARACTERS, text_of, words_of
from relight.values.call import Outcome
from relight.values.session import Identity
from relight.values.step import Changes

TEXT = "Please deploy the Zürich service to 北京, retry-after: 30; snake_case and a.b.c"
GIVEN: Final = {"order": 42137, "deep": {"amounts": [9.95, -7]}, "sent": True}


def finds(asked: str, text: str = TEXT) -> bool:
    return excerpt(parse(asked), text) is not None


def test_words_without_case_and_accents_phrases_beginnings_and_what_is_written_together() -> None:
    for asked in ("zurich", "ZÜRICH deploy", '"the Zürich"', "depl*", "北京", "北", "retry-after", "case", "a.b"):
        assert finds(asked), asked
    for asked in ("zur", '"Zürich the"', "deploy missing", "京北", "after-retry", "eploy*", '"the service"'):
        assert not finds(asked), asked
    assert finds("Cafe", "cafe\u0301 noir") and finds("CAFÉ", "un cafe")


def test_an_excerpt_shows_what_was_found_on_one_line() -> None:
    shown = excerpt(parse("needle"), "x " * 500 + "\nthe needle\tis here" + " y" * 500)
    assert shown is not None and "the needle is here" in shown and len(shown) < 200


def test_what_nobody_said_is_not_searched_and_what_was_said_to_a_tool_is() -> None:
    block = {"type": "tool_use", "id": "toolu_17", "name": "send_mail", "input": {"id": "order42", "type": "bug"}}
    image = {"type": "image", "source": {"type": "base64", "data": "aGVsbG8"}}
    text = text_of(encode_changes(Changes(messages=[{"role": "assistant", "content": [block, image]}])), "a-label")
    assert set(words_of(text)) == {"a", "label", "send", "mail", "order42", "bug"}


@pytest.mark.parametrize(
    "asked",
    [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "pay", "input": GIVEN}]},
        {
            "role": "assistant",
            "tool_calls": [{"id": "t1", "function": {"name": "pay", "arguments": json.dumps(GIVEN)}}],
        },
        {"type": "function_call", "call_id": "t1", "name": "pay", "arguments": json.dumps(GIVEN)},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t1", "name": "pay", "input": GIVEN}}]},
        {"role": "model", "parts": [{"functionCall": {"id": "t1", "name": "pay", "args": GIVEN}}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "t1", "name": "pay", "response": GIVEN}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [{"json": GIVEN}]}}]},
    ],
    ids=["anthropic", "chat", "responses", "bedrock", "gemini", "gemini result", "bedrock result"],
)
def test_a_number_that_a_tool_was_given_or_returned_is_found_in_every_form(asked: dict[str, Any]) -> None:
    text = text_of(encode_changes(Changes(messages=[asked])), None)
    assert all(finds(number, text) for number in ("42137", "9.95", "-7")) and not finds("t1", text)


def test_a_number_of_a_result_or_of_state_is_found() -> None:
    outcome = Outcome(id="t1", content={"receipt": 5151})
    text = text_of(encode_changes(Changes(outcomes=[outcome], state={"orders": [[999]], "huge": 10**5000})), None)
    assert finds("5151", text) and finds("999", text)


def test_a_session_is_found_by_its_names_without_accents_and_however_they_are_composed() -> None:
    for name in ("réseau", "re\u0301seau"):
        identity = Identity(id="0" * 32, created_us=0, labels={"team": name}, task="Über die Straße")
        for asked in ("réseau", "reseau", "RÉSEAU", "re\u0301seau", "uber", "strasse"):
            (term,) = parse(asked).terms
            assert all(word in searchable(identity) for word in term.words), "what a store compares"
            assert finds(asked, named_text(identity)), asked
        assert "Über die Straße" in named_text(identity)


def test_a_long_step_is_searched_up_to_the_bound_and_a_damaged_one_not_at_all() -> None:
    long = Changes(messages=[{"role": "user", "content": "early " + "x " * MAX_CHARACTERS + " late"}])
    words = words_of(text_of(encode_changes(long), None))
    assert "early" in words and "late" not in words
    assert text_of(b"\x01\x01damaged", None) == ""


@given(st.text(max_size=60), st.text(max_size=200))
def test_nothing_that_is_typed_is_an_error_of_a_query_language(asked: str, text: str) -> None:
    try:
        query = parse(asked)
    except UsageError:
        assert not words_of(asked.replace('"', " "))
        return
    shown = excerpt(query, text)
    if shown is not None:
        assert all(word in words_of(text) or term.is_prefix for term in query.terms for word in term.words)


@given(st.dictionaries(st.integers(0, 3 * blocks.BLOCK_STEPS), st.frozensets(st.sampled_from("abcde"))), st.data())
def test_a_block_without_some_steps_is_the_block_of_the_others(
    steps: dict[int, frozenset[str]], data: st.DataObject
) -> None:
    going = data.draw(st.frozensets(st.sampled_from(sorted(steps))) if steps else st.just(frozenset()))
    everything = blocks.rows_of(sorted(steps.items()))
    left = dict(everything)
    for block, offsets in blocks.by_block(going).items():
        rows = {word.encode(): stored for (number, word), stored in everything.items() if number == block}
        for word, stored in blocks.without(rows, offsets).items():
            if stored is None:
                del left[block, word.decode()]
            else:
                left[block, word.decode()] = stored
    assert left == blocks.rows_of(sorted((place, words) for place, words in steps.items() if place not in going))


def test_what_a_word_is_changes_only_with_a_migration_that_empties_the_index() -> None:
    """Words of an index and words of a query must be the same ones."""
    text = "Größe ﬁne İstanbul O'Neil a1b2 १२ 東京タワー 한국어 x_y " + "z" * 60
    assert words_of(text) == (
        ["grosse", "fine", "istanbul", "o", "neil", "a1b2", "१२", *"東京タワ", "ー", *"한국어", "x", "y", "z" * 40]
    )
