"""Words, queries and blocks: nothing that is typed is an error, and a block forgets exactly what goes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from relight.errors import UsageError
from relight.journal.codec import encode_changes
from relight.journal.search import blocks
from relight.journal.search.query import excerpt, parse
from relight.journal.search.words import MAX_CHARACTERS, text_of, words_of
from relight.values.step import Changes

TEXT = "Please deploy the Zürich service to 北京, retry-after: 30; snake_case and a.b.c"


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
