"""Rows as older versions wrote them: each form of them that a store may hold is read as whole."""

from __future__ import annotations

from typing import Any

import pytest

from relight.journal.chain import seal
from relight.stores.postgres.rows import ROWS as POSTGRES
from relight.stores.sqlite.rows import ROWS as SQLITE
from relight.stores.sqlite.rows import to_search_text
from relight.stores.stored_rows import Row, SqlRows
from relight.values.session import Head, Identity

STORES: dict[str, SqlRows[Any]] = {"sqlite": SQLITE, "postgres": POSTGRES}
AS_READ = {"sqlite": lambda text: to_search_text(text).encode(), "postgres": lambda text: text.encode()}
NAMED = Identity(id="a" * 32, name="zoë", task="Gru\u0308ße nach Köln", labels={"stadt": "Malmö"}, created_us=1)
FIRST_FORM = f"zoë\n{'a' * 32}\nGru\u0308ße nach Köln\nstadt=Malmö".casefold()
"""what 0.1.0 stored to look for names in: without the words that have accents, and as they were typed"""


def row_of(store: str, searchable: str) -> Row:
    rows = STORES[store]
    head = Head(session=NAMED.id, status="completed")
    id_, created_us, (*others, _) = rows.identity_columns(NAMED)
    read = [None if one is None else one if isinstance(one, bytes) else one.encode() for one in (id_, *others)]
    status: object = "completed" if store == "postgres" else b"completed"
    return (1, read[0], created_us, status, *read[1:], AS_READ[store](searchable), seal(NAMED), seal(head))


@pytest.mark.parametrize("store", STORES)
def test_a_session_whose_names_have_accents_is_whole_as_0_1_0_wrote_it(store: str) -> None:
    """It was called damaged: what is found by a search was written in another form since."""
    record = STORES[store].read_record(row_of(store, FIRST_FORM))
    assert record.head is not None
    assert record.head.status == "completed"


@pytest.mark.parametrize("store", STORES)
def test_a_row_in_neither_form_is_damaged(store: str) -> None:
    assert STORES[store].read_record(row_of(store, FIRST_FORM.replace("malmö", "malmo"))).head is None
