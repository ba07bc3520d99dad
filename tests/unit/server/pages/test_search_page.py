"""The page of a search over everything, with links to the steps; and the page of the HTTP interface."""

from __future__ import annotations

import re
from html import unescape

from starlette.testclient import TestClient

from relight.journal.search.query import marked, parse
from tests.support.hostile_texts import payloads
from tests.support.server_harness import ServerHarness


def body(client: TestClient, path: str, **params: str) -> str:
    answered = client.get(path, params=params or None)
    assert answered.status_code == 200, answered.text[:500]
    return answered.text


def said(harness: ServerHarness, name: str, *texts: str) -> str:
    with harness.rl.session(name) as s:
        for text in texts:
            s.append({"role": "assistant", "content": text})
    return s.id


def test_hits_are_grouped_by_session_and_lead_to_their_steps(harness: ServerHarness) -> None:
    first = said(harness, "ship", "the tide is high", "nothing here", "high tide again")
    other = said(harness, "shore", "low tide")
    with harness.client("read") as client:
        text = body(client, "/search", q="tide")
        assert re.findall(r'<h2><a href="/sessions/(\w+)">', text) == [other, first]
        links = re.findall(r'<a href="/sessions/(\w+)\?at=@(\d+)">', text)
        assert links == [(other, "2"), (first, "4"), (first, "2")]
        assert text.count("<mark>tide</mark>") == 3
        assert f'<a href="/sessions/{first}">name</a>' in body(client, "/search", q="ship"), "a session by its name"
        assert re.findall(r"\?at=@(\d+)", body(client, "/search", q="tide", session="ship")) == ["4", "2"]
        at = f"/sessions/{first}?at=@4"
        assert "high tide again" in body(client, at)


def test_every_hit_is_on_exactly_one_page(harness: ServerHarness) -> None:
    session = said(harness, "many", *(f"needle number {n}" for n in range(45)))
    with harness.client("read") as client:
        seen: list[str] = []
        path: str | None = "/search?q=needle"
        for _ in range(5):
            assert path is not None
            text = body(client, path)
            seen += re.findall(rf'"/sessions/{session}\?at=@(\d+)"', text)
            following = re.search(r'rel="next" href="([^"]+)"', text)
            path = unescape(following[1]) if following else None
            if path is None:
                break
        assert seen == [str(n) for n in range(46, 1, -1)]


def test_where_nothing_matches_the_page_says_what_was_looked_at(harness: ServerHarness) -> None:
    said(harness, "one", "a sentence about deployment")
    with harness.client("read") as client:
        text = body(client, "/search", q="deploy", since="8h")
        for part in ("1 session", "tool calls", "in the last 8h", "32,768"):
            assert part in text, part
        wider = [unescape(one) for one in re.findall(r'href="(/search\?[^"]+)"', text)]
        assert "deployment</mark>" in body(client, next(one for one in wider if "deploy%2A" in one)), "beginnings"
        assert "nothing to search for" in body(client, "/search", q="* (")
        assert "nobody" in body(client, "/search", q="x", session="nobody")
        assert "in quotes" in body(client, "/search")


def test_hostile_words_are_words(scene: ServerHarness, look: TestClient) -> None:
    for text in [*payloads(40), "<script>alert(1)</script>", '"><mark>', "\0", "%", "a" * 5000, "ß" * 300]:
        answered = look.get("/search", params={"q": text, "session": text[:300], "since": text, "before": text})
        assert answered.status_code == 200
        assert "<script>alert" not in answered.text and "<mark><" not in answered.text
    for before in ("-1", "9" * 30, "１２", "1e5"):
        assert look.get("/search", params={"q": "login", "before": before}).status_code == 200


def test_what_is_marked_are_the_words_that_were_asked_for() -> None:
    assert marked(parse('Über "no way" deplo*'), "über-no way: Deployed no, no way") == [
        ("über", True), ("-", False), ("no", True), (" ", False), ("way", True), (": ", False), ("Deployed", True),
        (" ", False), ("no", True), (", ", False), ("no", True), (" ", False), ("way", True),
    ]  # fmt: skip
    assert "".join(text for text, _ in marked(parse("x"), "")) == ""


def test_the_interface_has_a_page_of_its_own(scene: ServerHarness, look: TestClient) -> None:
    text = body(look, "/docs")
    document = scene.app.openapi()
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            assert f"<code>{method.upper()} {path}</code>" in unescape(text), (method, path)
            assert f'id="op-{one["operationId"]}"' in text
    assert not re.search(r'(?:src|href)="(?:https?:)?//', text), "nothing is loaded from elsewhere"
    assert "SessionEvent" in text and "OverEvent" in text
    events = document["paths"]["/api/events"]["get"]["responses"]["200"]["content"]["text/event-stream"]["x-events"]
    assert {one["$ref"].rpartition("/")[2] for one in events.values()} <= document["components"]["schemas"].keys()
