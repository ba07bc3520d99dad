"""Very many sessions with very many steps: the first page and a search cost what they show, and little is sent."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from starlette.testclient import TestClient

import relight
from tests.support.figures import Figure
from tests.support.many_sessions import archive, crowd, records
from tests.support.server_harness import ServerHarness

STEPS = 100
FIRST_BYTES = 100_000
FIRST_SECONDS = 0.150
SEARCH_SECONDS = 0.200
APART = "retry11+login19"
"""each in every fifth step, and never in the same one"""


@pytest.mark.timeout(3600)  # for the full size
def test_the_first_page_and_a_search_do_not_grow_with_the_store(
    tmp_path: Path, sample: Callable[..., int], figure: Figure
) -> None:
    sessions = sample(50, proof=100_000)
    archive(tmp_path / "p.db", sessions, STEPS, begins_us=round((time.time() - sessions) * 1e6))
    harness = ServerHarness(tmp_path / "p.db")
    with harness.client("read") as client:
        client.headers["accept-encoding"] = "gzip"
        took, size = best(client, "/")
        searches = {
            q: best(client, f"/search?q={q}")[0]
            for q in ("step", "handle", "nothinglikethis", APART, "deploy*+token*+nothing")
        }
        assert "<mark>step</mark>" in client.get("/search?q=step").text
        assert "Nothing has" in client.get("/search?q=nothinglikethis").text
        assert "Nothing " in client.get(f"/search?q={APART}").text and "<mark>" in client.get("/search?q=login19").text
    harness.close()
    assert size <= FIRST_BYTES and took <= FIRST_SECONDS, (size, took)
    assert max(searches.values()) <= SEARCH_SECONDS, searches
    slowest = max(searches.values())
    figure(
        "G27",
        f"{sessions:,} sessions, {sessions * STEPS:,} steps: first page {size / 1000:.1f} kB"
        f" in {took * 1e3:.0f} ms of CPU, a search {slowest * 1e3:.0f} ms",
    )


def test_pages_of_an_order_join_to_all_sessions_but_archived_ones(tmp_path: Path) -> None:
    made = list(records(700, begins_us=round((time.time() - 700) * 1e6)))
    for number in range(0, 700, 7):
        head = made[number].head
        assert head is not None
        made[number] = msgspec.structs.replace(made[number], head=msgspec.structs.replace(head, status="archived"))
    with relight.open(tmp_path / "p.db") as rl:
        rl.store.import_sessions(made, [], [])
    harness = ServerHarness(tmp_path / "p.db")
    with harness.client("read") as client:
        for sort in ("name", "-name", "steps", "-steps", "-cost", "updated", "created"):
            path: str | None = f"/api/sessions?archived=false&sort={sort}&limit=90"
            seen, pages = list[str](), list[int]()
            while path is not None:
                page = client.get(path).json()
                seen += [one["id"] for one in page["items"]]
                pages.append(len(page["items"]))
                path = (
                    f"/api/sessions?archived=false&sort={sort}&limit=90&cursor={page['next']}" if page["next"] else None
                )
            assert (len(set(seen)), len(seen), pages) == (600, 600, [90] * 6 + [60]), sort
    harness.close()


def best(client: TestClient, path: str) -> tuple[float, int]:
    """CPU seconds of this process, server included, for a request, the least of a few; and the size of the answer.
    Not the time on the clock: that is what other programs on this machine make of it."""
    took, size = [], 0
    for _ in range(5):
        began = time.process_time()
        answered = client.get(path)
        took.append(time.process_time() - began)
        assert answered.status_code == 200
        size = int(answered.headers["content-length"])
    return min(took), size


GROWS = ("/", "/operations/sweep", "/operations/resumes", "/?status=failed&sort=cost", "/?agent=nobody", "/metrics")
SORTED = tuple(f"/?sort={one}{way}" for one in ("name", "updated", "steps", "cost") for way in ("", "&reversed=1"))
HALTED = "/operations?resumes=1"
"""reads every halted session too, which are some of all: more than twice, and less than all"""
FEW, MANY = 3_000, 15_000


def test_a_page_costs_what_it_shows_in_every_order_and_with_every_filter(tmp_path: Path) -> None:
    """Five times the sessions may not cost twice as much."""
    took: dict[int, dict[str, float]] = {}
    for sessions in (FEW, MANY):
        crowd(tmp_path / f"{sessions}.db", sessions, begins_us=round((time.time() - 20 * 86_400) * 1e6))
        harness = ServerHarness(tmp_path / f"{sessions}.db")
        with harness.client("read") as client:
            client.headers["accept-encoding"] = "gzip"
            took[sessions] = {path: best(client, path)[0] for path in (*GROWS, *SORTED, HALTED)}
        harness.close()
    grown = {path: (took[FEW][path], took[MANY][path]) for path in took[FEW]}
    assert {
        path: both for path, both in grown.items() if both[1] > (3 if path == HALTED else 2) * both[0] + 0.010
    } == {}
