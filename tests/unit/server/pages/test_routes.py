"""The pages over HTTP: each reads, none changes anything, and nothing that is asked for makes the server fail."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import msgspec
import pytest
from starlette.testclient import TestClient

import relight
from relight.journal.queues.small_records import pack_record
from relight.server.pages.dialogs.session import VERBS
from relight.server.pages.rendering import ASSETS, assets, environment
from relight.sessions.session import writer_of
from relight.testing.clock import ManualClock
from relight.values.queues import Worker
from relight.values.status import Failure
from tests.support.many_sessions import crowd, long_session
from tests.support.server_harness import ServerHarness
from tests.unit.server.conftest import fill


def body(look: TestClient, path: str, status: int = 200) -> str:
    answer = look.get(path)
    assert answer.status_code == status, (path, answer.text[:500])
    assert answer.headers["content-type"].startswith("text/html")
    return answer.text


def paths(scene: ServerHarness) -> list[str]:
    session = scene.rl.sessions.get("fix-login").id
    found = ["/", "/?status=failed", "/?archived=1&sort=name", "/strip", "/digest?since=0", "/operations"]
    found += [f"/sessions/{session}?tab={tab}" for tab in ("history", "conversation", "calls", "files", "forks", "raw")]
    found += [
        f"/sessions/{session}/{part}"
        for part in ("peek", "spark", "plots", "rows?after=0", "news?after=3&density=turns")
    ]
    found += [f"/sessions/{session}/do/{verb}" for verb in VERBS]
    found += [
        f"/checkpoints/{session}@tests-green?compare={one}&other=@4" for one in ("disk", "previous", "head", "other")
    ]
    found += [f"/checkpoints/{session}@4/do/{verb}" for verb in ("fork", "rewind", "restore", "label", "resume")]
    return [*found, "/operations/resumes", "/operations/sweep", "/operations/do/sweep", "/operations?resumes=1"]


def test_every_page_answers_with_nothing_inline(scene: ServerHarness, look: TestClient) -> None:
    for path in paths(scene):
        text = body(look, path)
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|javascript:", text), path
        assert "\x1b" not in text and "None" not in re.sub(r"<[^>]*>", "", text), path
        assert len(text.encode()) < 120_000, path


def test_changed_rows_come_alone_and_the_strip_only_where_it_differs(scene: ServerHarness, look: TestClient) -> None:
    shown, other = scene.rl.sessions.get("fix-login").id, scene.rl.sessions.get("changelog").id
    first = body(look, f"/?part=rows&status=failed&ids={shown},nobody,&new={other}")
    assert re.findall(r'<tr class="s" id="r-(\w+)"', first) == [shown], "a new one that does not match is left out"
    assert f'id="r-{other}"' in body(look, f"/?part=rows&new={other},{shown}")
    assert '<section id="strip"' in first
    (digest,) = re.findall(r'<meta name="strip" content="(\w+)">', first)
    again = body(look, f"/?part=rows&ids={shown}&strip={digest}")
    assert "<section" not in again and "<thead" not in again and "r-" + shown in again
    assert body(look, f"/?part=rows&strip={digest}") == ""


def test_a_list_with_a_filter_has_what_matches_and_nothing_else(
    harness: ServerHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: dict[str, str] = {}
    for name, end in (("one", "halt"), ("two", "fail"), ("three", "complete")):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        with harness.rl.session(name) as s:
            getattr(s, end)("enough")
            made[name] = str(s.id)
    look, here = harness.client("read"), tmp_path / "one"
    for query, names in (
        ("status=failed,halted", {"one", "two"}),
        (f"directory={here}", {"one"}),
        (f"status=failed,completed&directory={here}", set()),
    ):
        listed = look.get(f"/?{query}").text
        assert {name for name, session in made.items() if f'id="r-{session}"' in listed} == names, query
        news = look.get(f"/?{query}&part=rows&ids=&new={','.join(made.values())}&strip=").text
        assert {name for name, session in made.items() if f'id="r-{session}"' in news} == names, query
        dialog = look.get(f"/do/several/label?{query}").text
        assert {name for name, session in made.items() if f'value="{session}"' in dialog} == names, query


def test_looking_changes_no_row_of_the_store_and_no_audit_entry(scene: ServerHarness, look: TestClient) -> None:
    def state() -> tuple[object, ...]:
        infos = [(info.id, info.seq, info.attempt, info.status) for info in scene.rl.sessions.list()]
        return infos, scene.rl.sessions.counts(), scene.service.state.rows("SELECT count(*) FROM actions")

    before = state()
    for path in paths(scene):
        look.get(path)
    assert state() == before


@pytest.mark.parametrize(
    "path",
    [
        "/sessions/%2e%2e%2fetc",
        "/sessions/none",
        "/sessions/..%00",
        "/checkpoints/none@1",
        "/checkpoints/fix-login@999999",
        "/sessions/fix-login/value?seq=9999&part=0",
        "/sessions/fix-login/value?seq=3&part=99",
        "/sessions/fix-login/difference?root=main&path=../../etc/passwd",
        "/sessions/fix-login/do/format-disk",
        "/assets/../app.py",
        "/assets/%2e%2e/app.py",
        "/assets/nothing.js",
    ],
)
def test_what_is_not_there_is_a_page_that_says_so(scene: ServerHarness, look: TestClient, path: str) -> None:
    text = body(look, path, 404)
    assert "<h1>not found</h1>" in text and "Traceback" not in text


@pytest.mark.parametrize("query", ["?at=@x", "?upto=-1&after=zz", "?tab=zz&density=zz&show=zz", f"?q={'a' * 5000}",
                                   "?after=99999999999999999999", "?all=1", "?q=%00%1b"])  # fmt: skip
def test_a_strange_address_of_a_page_is_read_leniently(scene: ServerHarness, look: TestClient, query: str) -> None:
    body(look, f"/sessions/fix-login{query}")


def test_who_is_not_let_in_is_told_how_to_get_in(scene: ServerHarness) -> None:
    with scene.client(None) as client:
        answer = client.get("/", headers={"accept": "text/html"})
        assert answer.status_code == 401 and "relight serve --link" in answer.text
        assert "/assets/" not in answer.text, "assets are guarded, so this page must read without them"
        assert client.get("/assets/relight.css").status_code == 401


def test_a_store_with_one_session_of_each_kind_says_what_needs_somebody_first(
    scene: ServerHarness, look: TestClient
) -> None:
    text = body(look, "/")
    kinds = re.findall(r'data-kind="([a-z ]+)"', text)
    assert kinds[0] == "waiting" and set(kinds) <= {"waiting", "failed", "halted", "quiet", "terminated"}
    names = re.findall(r'<tr class="s".*?data-ref="([^"]+)"', text)
    assert names == [info.name for info in scene.rl.sessions.list() if info.status != "archived"], (
        "newest created first"
    )
    assert "1 archived not shown" in text


def test_a_damaged_newest_step_is_named_and_what_is_whole_is_offered(tmp_path: Path) -> None:
    with relight.open(tmp_path / "whole.db") as rl, rl.session("broken", provider="openai") as s:
        for n in range(5):
            s.append({"role": "user", "content": f"message {n}"})
        session, newest = s.id, int(s.head.rpartition("@")[2])
        (step,) = rl.store.steps(session, after=newest - 1)
    source = apsw.Connection(str(tmp_path / "whole.db"))
    source.execute("VACUUM INTO ?", (str(tmp_path / "p.db"),))
    source.close()
    (tmp_path / "p.db").chmod(0o600)
    content = (tmp_path / "p.db").read_bytes()
    location = content.index(step.body) + len(step.body) // 2
    (tmp_path / "p.db").write_bytes(content[:location] + bytes([content[location] ^ 4]) + content[location + 1 :])
    harness = ServerHarness(tmp_path / "p.db")
    try:
        with harness.client() as client:
            answer = client.get(f"/sessions/{session}", headers={"accept": "text/html"})
    finally:
        harness.close()
    assert answer.status_code == 200
    assert f"Everything up to @{newest - 1} is whole" in answer.text and "--from-last-good" in answer.text


def test_a_store_that_promises_less_is_said_on_every_page(
    harness: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    less = msgspec.structs.replace(harness.rl.store.info, durability="process-crash")
    monkeypatch.setattr(type(harness.rl.store), "info", property(lambda self: less), raising=False)
    with harness.client() as client:
        for path in ("/", "/operations"):
            text = client.get(path, headers={"accept": "text/html"}).text
            assert "not of the machine" in text and "not durable" in text, path


def test_an_archived_session_can_only_be_forked_and_exported(scene: ServerHarness, look: TestClient) -> None:
    text = body(look, f"/sessions/{scene.rl.sessions.get('old-spike').id}")
    possible = set(re.findall(r'data-dialog data-verb="([a-z]+)"', text))
    assert possible == {"fork", "export", "remove"}
    assert "it is archived: it can only be forked and exported" in text


def test_a_session_without_files_says_how_to_have_them(scene: ServerHarness, look: TestClient) -> None:
    text = body(look, f"/sessions/{scene.rl.sessions.get('refactor-db').id}?tab=files")
    assert "no workspace" in text and "--workspace" in text


def test_a_dialog_carries_the_plan_and_the_command_that_does_the_same(scene: ServerHarness, look: TestClient) -> None:
    session = scene.rl.sessions.get("fix-login").id
    text = body(look, f"/checkpoints/{session}@tests-green/do/rewind")
    assert f'data-plan="{scene.rl.runs.plan_hash(f"{session}@27")}"' in text
    assert f'data-path="/api/sessions/{session}@27/rewind"' in text
    assert "relight rewind fix-login@27 --conversation|--files|--both" in text
    assert text.count('type="radio"') == 3 and "checked" not in text


def test_every_address_that_a_dialog_would_call_is_a_route_of_the_api(scene: ServerHarness, look: TestClient) -> None:
    routes = [re.sub(r"\{[a-z]+\}", "[^/]+", path) for path in scene.app.openapi()["paths"]]
    session = scene.rl.sessions.get("fix-login").id
    called = 0
    for verb in VERBS:
        text = body(look, f"/checkpoints/{session}@10/do/{verb}")
        for path in filter(None, re.findall(r'data-(?:path|undo)="([^"?]*)', text)):
            called += 1
            assert any(re.fullmatch(route, path) for route in routes), (verb, path)
    assert called > len(VERBS) - 3


def test_ten_thousand_sessions_cost_one_page(tmp_path: Path) -> None:
    crowd(tmp_path / "p.db", 2000, begins_us=ManualClock().now_us())
    harness = ServerHarness(tmp_path / "p.db")
    session = long_session(harness.rl, "long", 300)
    try:
        with harness.client() as client:
            client.headers["accept"] = "text/html"
            first = body(client, "/")
            assert first.count('<tr class="s"') == 100 and len(first) < 110_000
            history = body(client, f"/sessions/{session}")
            assert 150 < history.count('<li class="row') <= 201 and len(history) < 120_000
            older = re.search(r'rel="next" href="([^"]+)"', first)
            assert older is not None
            second = body(client, older[1].replace("&amp;", "&"))
            assert second.count('<tr class="s"') == 100 and "task-01900" in second
    finally:
        harness.close()


def test_operations_show_quarantine_queues_and_workers_with_what_to_do(harness: ServerHarness) -> None:
    with harness.rl.session("loops", agent="mine") as s:
        s.append({"role": "user", "content": "go"})
        writer_of(s).end("halted", "the same failure 3 times", failure=Failure(kind="auth"))
    harness.rl.queues.submit(["true"], name="in-line", directory=str(harness.store.parent), queue="nightly")
    worker = Worker(
        name="w1",
        host="elsewhere",
        pid=7,
        engine="embedded",
        queues=("nightly",),
        concurrency=2,
        started_us=1,
        seen=harness.rl.store.instant(),
        sweep_seconds=5.0,
    )
    harness.rl.store.put_record("worker", worker.name, pack_record(worker))
    with harness.client() as client:
        text = client.get("/operations", headers={"accept": "text/html"}).text
    assert "Quarantine (1)" in text and "/do/resume" in text and "Release…" in text
    assert "Queues (" in text and "nightly" in text
    assert "Workers (1)" in text and "pid 7 on elsewhere" in text


def test_assets_are_kept_by_the_browser_and_named_by_their_content(look: TestClient) -> None:
    text = body(look, "/")
    address = re.search(r"/assets/relight\.css\?v=[0-9a-f]{12}", text)
    assert address is not None
    answer = look.get(address[0])
    assert answer.headers["content-type"].startswith("text/css") and "immutable" in answer.headers["cache-control"]
    assert all((ASSETS / name).is_file() for name in assets())


def test_every_template_is_used_and_compiles() -> None:
    names = environment().list_templates()
    sources = "".join(path.read_text() for path in ASSETS.parent.rglob("*.py"))
    sources += "".join((ASSETS.parent / "templates" / name).read_text() for name in names)
    for name in names:
        environment().get_template(name)
        assert f'"{name}"' in sources or name.startswith("tab_"), name


def test_pages_need_nothing_of_others_to_read(harness: ServerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    from relight.server.pages import rendering

    fill(harness.rl)
    own = {name: value for name, value in assets().items() if not name.startswith("vendor/")}
    monkeypatch.setattr(rendering, "assets", lambda: own)
    with harness.client() as client:
        text = client.get("/", headers={"accept": "text/html"}).text
    assert "vendor" not in text and "fix-login" in text
