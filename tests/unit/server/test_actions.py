"""A change over HTTP: done once under its key, refused when the plan moved, always in the audit log."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from starlette.testclient import TestClient

from relight.errors import StoreUnavailable
from relight.server.actions import ActionResult, ActionRunner
from relight.server.http.refusals import KeyBusy
from relight.server.tokens import Principal
from tests.support.server_harness import Answer, ServerHarness

pytestmark = pytest.mark.usefixtures("some")
WHO = Principal(name="somebody", scope="admin")


def test_the_same_request_under_the_same_key_is_done_once(harness: ServerHarness, client: TestClient) -> None:
    headers = {"Idempotency-Key": "fork-1"}
    first = client.post("/api/sessions/changelog/fork", json={"name": "copy"}, headers=headers)
    again = client.post("/api/sessions/changelog/fork", json={"name": "copy"}, headers=headers)
    assert first.status_code == again.status_code == 201 and first.json() == again.json()
    assert again.headers["idempotent-replayed"] == "true" and "idempotent-replayed" not in first.headers
    assert len([one for one in harness.rl.sessions.list() if one.name == "copy"]) == 1
    other = client.post("/api/sessions/changelog/fork", json={"name": "copy-2"}, headers=headers)
    assert Answer(other).code == "RL-6007" and other.status_code == 422
    elsewhere = client.post("/api/sessions/fix-login/fork", json={"name": "copy"}, headers=headers)
    assert elsewhere.status_code == 422
    mine = harness.client("operate").post("/api/sessions/changelog/fork", json={"name": "mine"}, headers=headers)
    assert mine.status_code == 201  # a key belongs to who used it


def test_a_refused_request_gives_its_key_back(harness: ServerHarness, client: TestClient) -> None:
    headers = {"Idempotency-Key": "k"}
    assert client.post("/api/sessions/nobody/fork", json={}, headers=headers).status_code == 404
    assert client.post("/api/sessions/changelog/fork", json={}, headers=headers).status_code == 201


def test_two_servers_of_one_store_refuse_nothing_because_the_other_writes(harness: ServerHarness) -> None:
    other = ServerHarness.again(harness.store)
    start = threading.Barrier(2)
    wrong: list[BaseException] = []

    def many(one: ServerHarness, side: int) -> None:
        start.wait(60)
        for number in range(30):
            try:
                one.service.actions.run(
                    WHO, "try", None, lambda _: ActionResult(document={}), asked={}, key=f"{side}-{number}"
                )
            except BaseException as error:
                wrong.append(error)

    threads = [threading.Thread(target=many, args=(one, side)) for side, one in enumerate((harness, other))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
    other.close()


def test_two_at_once_under_one_key_are_one(harness: ServerHarness) -> None:
    actions, entered, leave = harness.service.actions, threading.Event(), threading.Event()
    done: list[ActionResult] = []

    def slow(_: object) -> ActionResult:
        entered.set()
        assert leave.wait(60)
        return ActionResult(document={"n": 1})

    def first() -> None:
        done.append(actions.run(WHO, "try", None, slow, asked={}, key="k"))

    thread = threading.Thread(target=first)
    thread.start()
    assert entered.wait(60)
    with pytest.raises(KeyBusy):
        actions.run(WHO, "try", None, slow, asked={}, key="k")
    leave.set()
    thread.join()
    assert actions.run(WHO, "try", None, slow, asked={}, key="k").replayed and len(done) == 1


def test_a_key_whose_server_died_at_work_does_nothing_twice(harness: ServerHarness) -> None:
    def dies(_: object) -> ActionResult:
        raise KeyboardInterrupt

    service, ran = harness.service, []
    before = ActionRunner(service.rl, service.state, service.settings, service.clock)
    row = before._claim_key(WHO, "k", "", {})  # and then the power went
    assert isinstance(row, str)
    after = ActionRunner(service.rl, service.state, service.settings, service.clock)
    with pytest.raises(KeyBusy, match="outcome unknown"):
        after.run(WHO, "try", None, lambda _: ran.append(1) or ActionResult(document={}), asked={}, key="k")  # type: ignore[func-returns-value]
    assert ran == []
    with pytest.raises(KeyboardInterrupt):
        after.run(WHO, "try", None, dies, asked={}, key="other")


def test_a_key_whose_store_was_lost_at_work_does_nothing_twice(harness: ServerHarness) -> None:
    def lost(_: object) -> ActionResult:
        raise StoreUnavailable("the answer to COMMIT did not come")

    actions = harness.service.actions
    with pytest.raises(StoreUnavailable):
        actions.run(WHO, "try", None, lost, asked={}, key="k")
    assert harness.service.state.rows("SELECT outcome FROM actions") == [("unknown: RL-5001",)]
    with pytest.raises(KeyBusy, match="outcome unknown"):
        actions.run(WHO, "try", None, lambda _: pytest.fail("done again"), asked={}, key="k")


def test_what_was_done_is_answered_as_done_also_where_it_cannot_be_written_down(harness: ServerHarness) -> None:
    actions, state = harness.service.actions, harness.service.state

    def then_full(_: object) -> ActionResult:
        state.rows("CREATE TRIGGER full BEFORE UPDATE ON actions BEGIN SELECT RAISE(ABORT, 'disk full'); END")
        return ActionResult(document={"n": 1})

    assert actions.run(WHO, "try", None, then_full, asked={}, key="k").document == {"n": 1}
    assert state.rows("SELECT outcome FROM actions") == [("begun",)]
    assert actions.run(WHO, "try", None, then_full, asked={}, key="k").replayed


def test_only_so_many_changes_wait_at_once_and_looking_goes_on(harness: ServerHarness, client: TestClient) -> None:
    actions, leave, entered = harness.service.actions, threading.Event(), threading.Semaphore(0)

    def slow(_: object) -> ActionResult:
        entered.release()
        assert leave.wait(60)
        return ActionResult(document={})

    threads = [
        threading.Thread(target=actions.run, args=(WHO, "try", None, slow), kwargs={"asked": {}}) for _ in range(24)
    ]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert entered.acquire(timeout=60)
    assert Answer(client.post("/api/sessions/changelog/fork", json={})).status == 429
    assert client.get("/api/sessions").status_code == 200
    reported = client.get("/api/actions").json()["items"][0]
    assert reported["verb"] == "fork" and reported["outcome"] == "refused: RL-6005"  # whoever asked stands in the log
    leave.set()
    for thread in threads:
        thread.join()
    assert client.post("/api/sessions/changelog/fork", json={}).status_code == 201


@pytest.mark.parametrize("key", ["", "x" * 201, "a\tb"])
def test_a_key_is_short_and_printable(client: TestClient, key: str) -> None:
    answered = client.post("/api/sessions/changelog/fork", json={}, headers={"Idempotency-Key": key})
    assert answered.status_code in (400, 201) and (answered.status_code == 400 or not key)


def test_a_plan_that_moved_is_shown_again_and_nothing_is_done(harness: ServerHarness, client: TestClient) -> None:
    shown = client.get("/api/sessions/fix-login/can-resume").json()["plan"]
    harness.rl.runs.send("fix-login", "no")
    moved = client.post("/api/sessions/fix-login/archive", json={}, headers={"If-Match": f'"{shown}"'})
    problem = Answer(moved)
    assert problem.status == 409 and problem.code == "RL-4010"
    new: Any = problem.document["plan"]
    assert new["plan"] == harness.rl.runs.plan("fix-login").plan != shown
    assert harness.rl.sessions.get("fix-login").status == "queued"
    refused = client.get("/api/actions").json()["items"][0]
    assert refused["verb"] == "archive" and refused["outcome"] == f"refused: {moved.json()['code']}"
    fits = client.post("/api/sessions/fix-login/archive", json={}, headers={"If-Match": new["plan"]})
    assert fits.status_code == 200


def test_who_did_what_is_written_down_before_and_after(harness: ServerHarness, client: TestClient) -> None:
    harness.client("operate").post("/api/sessions/fix-login/send", json={"text": "my secret word", "why": "asked"})
    client.post("/api/sessions/fix-login/rewind", json={"scope": "conversation"})
    items = client.get("/api/actions").json()["items"]
    refused, sent = items[0], items[1]
    assert sent["who"] == "operate" and sent["verb"] == "send" and sent["why"] == "asked"
    assert sent["before"]["status"] == "waiting" and sent["after"]["status"] == "queued"
    assert "my secret word" not in str(items) and sent["asked"]["text"] == "(14 characters)"
    assert refused["outcome"].startswith("refused: RL-") and refused["after"] is None
    only = client.get("/api/actions", params={"session": sent["session"]}).json()["items"]
    assert [one["id"] for one in only] == [refused["id"], sent["id"]]


def test_the_audit_log_cannot_be_rewritten_and_stays_bounded(harness: ServerHarness, client: TestClient) -> None:
    client.post("/api/sessions/changelog/fork", json={})
    with pytest.raises(StoreUnavailable, match="append-only"):
        harness.service.state.rows("UPDATE actions SET who = 'nobody'")
    for number in range(30):
        harness.service.actions.begin_entry(WHO, f"verb-{number}", None, asked={}, why=None)
    import msgspec

    small = msgspec.structs.replace(harness.settings, max_actions=10)
    ActionRunner(harness.rl, harness.service.state, small, harness.service.clock).prune()
    kept = harness.service.state.rows("SELECT verb FROM actions ORDER BY id")
    assert [row[0] for row in kept] == [f"verb-{number}" for number in range(20, 30)]


def test_of_many_who_change_a_session_at_once_each_is_told_and_each_is_written_down(harness: ServerHarness) -> None:
    """What only one can do, one does; nobody's change is lost, and nothing is a fault."""
    asked: list[tuple[str, str, Any]] = [
        ("POST", "/api/sessions/port-to-uv/archive", {}),
        ("POST", "/api/sessions/port-to-uv/fork", {}),
        ("POST", "/api/sessions/nightly-docs/send", {"text": "x"}),
        ("POST", "/api/sessions/nightly-docs/clear", {}),
        ("DELETE", "/api/sessions/changelog", None),
    ] * 4
    start, reported = threading.Barrier(len(asked)), []

    def ask(number: int, method: str, path: str, body: Any) -> None:
        client = harness.client(("operate", "admin")[number % 2] if path.endswith(("fork", "send")) else "admin")
        start.wait(60)
        reported.append((path.rpartition("/")[2], client.request(method, path, json=body).status_code))

    threads = [threading.Thread(target=ask, args=(number, *one)) for number, one in enumerate(asked)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(reported) == len(asked) and all(status in (200, 201, 404, 409, 410) for _, status in reported), reported
    assert reported.count(("archive", 200)) == reported.count(("changelog", 200)) == 1, reported
    sent, forked = reported.count(("send", 200)), reported.count(("fork", 201))
    assert len([one for one in harness.rl.sessions.list() if one.parent]) == forked
    assert len(harness.rl.history.load("nightly-docs").messages) == 1 + sent
    outcomes = [row[0] for row in harness.service.state.rows("SELECT outcome FROM actions")]
    assert len(outcomes) == len(asked) and outcomes.count("done") == len([1 for _, status in reported if status < 400])


def test_a_key_stands_for_everything_the_request_said(some: ServerHarness) -> None:
    """S-M3: whatever differs in the body is another request, also where a route does not look at it itself."""
    client = some.client()
    key = {"Idempotency-Key": "k1"}
    first = client.post("/api/sessions", json={"command": ["true"], "queue": "q"}, headers=key)
    again = client.post(
        "/api/sessions",
        content=b' {"queue":"q", "command":["true"]}',
        headers={**key, "Content-Type": "application/json"},
    )
    other = client.post("/api/sessions", json={"command": ["false"], "queue": "q"}, headers=key)
    assert (first.status_code, again.status_code, other.status_code) == (201, 201, 422)
    assert again.headers["idempotent-replayed"] == "true" and again.json() == first.json()
    ids = [some.rl.sessions.get("changelog").id]
    several = [{"sessions": ids, "plans": {ids[0]: "a" * 8}}, {"sessions": ids, "plans": {ids[0]: "b" * 8}}]
    answered = [client.post("/api/archive", json=body, headers={"Idempotency-Key": "k2"}) for body in several]
    assert [one.status_code for one in answered] == [200, 422]
    assert some.rl.sessions.get("changelog").status == "completed", "the second was not done under the key of the first"


def test_a_start_stands_in_the_log_with_its_command(some: ServerHarness) -> None:
    some.client().post("/api/sessions", json={"command": ["true", "--now"], "queue": "q"})
    entry = next(one for one in some.client().get("/api/actions").json()["items"] if one["verb"] == "start")
    assert entry["asked"]["command"] == ["true", "--now"]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM actions",
        "DELETE FROM actions WHERE id = (SELECT max(id) FROM actions)",
        "UPDATE actions SET why = 'x'",
        "UPDATE actions SET outcome = 'refused: x'",
        "UPDATE actions SET scope = 'read', name = 'x', after = NULL",
        "INSERT OR REPLACE INTO actions (id, at_us, who, scope, verb, asked, outcome)"
        " SELECT min(id), 1, 'somebody', 'read', 'nothing', '{}', 'done' FROM actions",
        "INSERT INTO actions (id, at_us, who, scope, verb, asked, outcome) VALUES (0, 1, '', '', '', '{}', 'done')",
    ],
)
def test_the_audit_log_is_only_appended_to(some: ServerHarness, statement: str) -> None:
    """S-L4."""
    some.client().post("/api/sessions/fix-login/send", json={"text": "yes"})
    before = some.service.state.rows("SELECT * FROM actions")
    with pytest.raises(StoreUnavailable, match="append-only"):
        some.service.state.rows(statement)
    assert some.service.state.rows("SELECT * FROM actions") == before
