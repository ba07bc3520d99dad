"""What no program of the SDK sends, and somebody's does: refused, or kept without harm to the rows beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

import relight
from relight.errors import UsageError
from relight.frameworks.cursor import RelightAgentStore
from relight.library.facade import Relight
from tests.integration.frameworks.cursor.test_store import a_run, agent

ALIKE = ("x" * 80 + "51623", "x" * 80 + "73454")
"""two ids of agents whose first characters, and the first 32 bits of whose digests, are the same"""


@pytest.fixture
def store() -> Iterator[RelightAgentStore]:
    rl: Relight
    with relight.open("memory:") as rl:
        yield RelightAgentStore(rl)


def test_a_row_without_what_lists_are_ordered_by_does_not_hide_the_others(store: RelightAgentStore) -> None:
    odd: list[Any] = [None, "yesterday", [1], True]
    for number, value in enumerate(odd):
        store.agents.create({"agent": agent(f"odd{number}", updatedAt=value)})
        store.runs.create({"run": a_run(f"odd{number}", "fine", turnNumber=value)})
    store.agents.create({"agent": {"agentId": "bare"}})
    store.runs.create({"run": {"agentId": "fine", "runId": "bare"}})
    store.agents.create({"agent": agent("fine", 7)})
    store.runs.create({"run": a_run("fine", "fine", 7)})
    for listing, field in ((store.agents.list, "agentId"), (store.runs.list, "runId")):
        seen: list[str] = []
        given: dict[str, Any] = {"limit": 2}
        while True:
            page = listing({"filter": given})
            seen += [row[field] for row in page["items"]]
            if "nextCursor" not in page:
                break
            given = {"limit": 2, "cursor": page["nextCursor"]}
        assert sorted(seen) == ["bare", "fine", "odd0", "odd1", "odd2", "odd3"]


@pytest.mark.parametrize(
    "payload",
    [
        {"filter": {"agentIds": "abc"}},
        {"filter": {"agentIds": [5]}},
        {"filter": {"agentIds": {"a": 1}}},
        {"filter": {"agentIds": 5}},
    ],
)
def test_a_filter_that_is_none_deletes_nothing(store: RelightAgentStore, payload: dict[str, Any]) -> None:
    for name in ("a", "b", "5"):
        store.agents.create({"agent": agent(name)})
        store.runs.create({"run": a_run(name, name)})
    for delete in (store.agents.delete, store.runs.delete, store.checkpoints.delete):
        with pytest.raises(UsageError, match="agentIds"):
            delete(payload)
    assert len(store.agents.list({})["items"]) == len(store.runs.list({})["items"]) == 3


def test_numbers_and_cursors_that_are_none_are_refused_by_name(store: RelightAgentStore) -> None:
    store.runs.create({"run": a_run("r", "a")})
    store.run_events.append({"runId": "r", "eventType": "x"})
    assert len(store.run_events.list({"runId": "r", "limit": math.inf})["items"]) == 1
    for odd in ({"limit": math.nan}, {"limit": "5"}, {"afterOffset": math.inf}, {"afterOffset": math.nan}):
        with pytest.raises(UsageError):
            store.run_events.list({"runId": "r", **odd})
    with pytest.raises(UsageError, match="idempotencyKey"):
        store.run_events.append({"runId": "r", "eventType": "x", "idempotencyKey": ["a"]})
    with pytest.raises(UsageError):
        store.checkpoints.list({"filter": {"cursor": 5}})


def test_ids_that_are_almost_alike_are_apart(store: RelightAgentStore) -> None:
    one, other = ALIKE
    store.agents.create({"agent": agent(one, 1)})
    store.agents.create({"agent": agent(other, 2)})
    assert [store.agents.get({"agentId": name})["updatedAt"] for name in ALIKE] == [1, 2]  # type: ignore[index]
