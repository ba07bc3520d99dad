"""Secrets do not rest in clear: canaries are given in every place there is, and then every byte is searched.

A program's own data is kept as it is, unless it asks for redaction; everything about it never holds a secret.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest

import relight
from relight.errors import RelightError, UsageError, Waiting
from relight.journal.redaction.recorded_fields import DECLARED
from relight.server.http.logs import LOG, JsonLines, PlainLines
from relight.stores.postgres.migrate import TABLES
from relight.telemetry.spans import span
from relight.testing import ScriptedModel
from tests.docs.pages import ROOT
from tests.support.calls import call
from tests.support.figures import Figure
from tests.support.files_on_disk import files_below
from tests.support.postgres_server import running
from tests.support.recorded_spans import RecordedSpans
from tests.support.redis_server import RedisServer, redis_program
from tests.support.server_harness import ServerHarness
from tests.support.shell import Shell, eventually

PLAIN = {"Away", "Asked", "Parent", "RunPolicy", "QueuePosition", "Lease", "Usage", "Owner", "Instant", "Entry"}
"""values of ours that hold ids, numbers and words of ours alone"""


class Canaries:
    """Made-up tokens, one a place; none of them ever opened anything."""

    def __init__(self) -> None:
        self.locations: dict[str, str] = {}

    def __call__(self, location: str) -> str:
        made = f"ghp_{len(self.locations):03}" + "a1B2c3D4" * 4 + "x"
        self.locations[made] = location
        return made

    def found_in(self, *seen: bytes | str) -> list[str]:
        data = b"\0".join(one.encode("utf-8", "surrogatepass") if isinstance(one, str) else one for one in seen)
        return [location for value, location in self.locations.items() if value.encode() in data]


@pytest.fixture
def canary() -> Canaries:
    return Canaries()


def files_in(directory: Path) -> Iterator[bytes]:
    for path, data in files_below(directory):
        yield str(path.relative_to(directory)).encode()
        yield data


def readable(rl: relight.Relight) -> Iterator[str]:
    """Everything as the library gives it back: bodies are compressed on disk."""
    for info in rl.sessions.list():
        yield repr(info)
        yield repr(list(rl.history.events(info.id)))
        yield repr(rl.history.load(info.id))
        yield repr(list(rl.history.checkpoints(info.id)))


def refused(do: Callable[[], Any]) -> None:
    with pytest.raises(UsageError, match="holds a secret"):
        do()


def tell_all_about(rl: relight.Relight, canary: Canaries) -> None:
    """Every place in which something is said about a session."""
    labels = {"k": canary("label"), canary("label's name"): "x"}
    about: dict[str, Any] = {"task": canary("task"), "agent": canary("agent"), "model": canary("model")}
    with rl.session("s", **about, labels=labels, metadata={"note": [canary("metadata")]}) as s:
        s.append({"role": "user", "content": "x"})
        refused(lambda: s.checkpoint(canary("checkpoint")[:60]))
        s.fail(f"bad {canary('reason')}")
    refused(lambda: rl.session(canary("name")))
    refused(lambda: rl.session("keyed", key=canary("key")))
    refused(lambda: rl.history.label("s@1", canary("label given later")))
    refused(lambda: rl.queues.submit(["true"], queue=canary("queue")))
    refused(lambda: rl.queues.submit(["true"], wants=["gpu", canary("label of a worker")]))
    refused(lambda: rl.queues.set(canary("queue with limits"), concurrency=1))
    with pytest.raises(RuntimeError), rl.session("dies") as s:
        s.append({"role": "user", "content": "x"})
        raise RuntimeError(f"no {canary('exception')}")
    question = f"may I use {canary('question')}?"
    for answer in (None, "yes"):
        with rl.session("asks") as s:
            if answer is None:
                with pytest.raises(Waiting):
                    s.ask(question)
            else:
                assert s.ask(question) == answer, "the answer to a question that was redacted is found"
        rl.runs.send("asks", "yes") if answer is None else None
    rl.runs.send("dies", f"go on with {canary('prompt')}")
    rl.admin.release("s", why=canary("why"), who=canary("who"), forget_native=True)


def tell_all_data(s: relight.Session, canary: Canaries) -> None:
    """Every place in which the program's own data stands."""
    s.append({"role": "user", "content": f"key {canary('message')}", "request_id": canary("identifier")})
    thinking = {"type": "thinking", "thinking": canary("signed thinking"), "signature": "abc"}
    s.append({"role": "assistant", "content": [thinking, {"type": "text", "text": canary("block")}]})
    s.append(call("c1", "sh", json.dumps({"command": f"echo {canary('arguments')}"})))
    s.append({"role": "tool", "tool_call_id": "c1", "content": canary("result")})
    s.state["a"] = {"deep": [canary("state")]}
    s.state[canary("state's key")] = 1
    s.once("k", lambda: canary("once"))
    s.partial({"so far": canary("partial result")})
    s.complete({"done": canary("final result")})


def test_what_is_said_about_a_session_is_in_no_byte_of_its_store(
    tmp_path: Path, canary: Canaries, figure: Figure
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    with relight.open(kept / "r.db") as rl:
        tell_all_about(rl, canary)
        assert canary.found_in(*readable(rl), *files_in(kept)) == []
        rl.history.export("s", kept / "s.relight")
        documents = [json.dumps(document) for _, document in rl.history.documents("s")]
    assert canary.found_in(*documents, *files_in(kept)) == []
    figure("G26", f"canaries in {len(canary.locations)} places of what is recorded about a session: in no byte on disk")


def test_a_programs_own_data_is_kept_as_it_is_unless_it_asks(tmp_path: Path, canary: Canaries) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        with rl.session("s") as s:
            tell_all_data(s, canary)
        found = canary.found_in(*readable(rl))
        assert found == list(canary.locations.values()), "the model and the program are given it again"
        assert canary.found_in(*(json.dumps(document) for _, document in rl.history.documents("s"))) == []
        assert canary.found_in(*(json.dumps(one) for _, one in rl.history.documents("s", redact=False))) == found


def test_what_is_logged_and_traced_about_a_session_holds_none_of_it(
    tmp_path: Path, canary: Canaries, recorded_spans: RecordedSpans, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "relight")

    def refuse(to: str) -> str:
        raise ValueError(f"{to} {canary('error of a tool')}")

    told = [{"refuse": {"to": canary("argument")}}, ConnectionError(canary("error of a model")), canary("reply")]
    with relight.open(tmp_path / "r.db") as rl:
        tell_all_about(rl, canary)
        with rl.session("data") as s:
            tell_all_data(s, canary)
        with rl.session("runs", model="m", provider="anthropic") as s:
            retry = relight.Retry(first_seconds=0.001)
            model, tools = ScriptedModel(told), {"refuse": refuse}
            s.run(model, tools=tools, prompt=canary("loop's prompt"), retry=retry)
    logged = [f"{vars(record)} {record.getMessage()}" for record in caplog.records]
    spans = [one.to_json() for one in recorded_spans.exporter.get_finished_spans()]
    assert {record.name for record in caplog.records} >= {"relight.session", "relight.tool", "relight.model"}
    assert len(spans) > 20 and any("execute_tool" in one for one in spans)
    assert canary.found_in(*logged, *spans) == []


@pytest.mark.parametrize("how", ["session", "environment"])
def test_with_redaction_a_programs_data_is_in_no_byte_either(
    tmp_path: Path, canary: Canaries, how: str, monkeypatch: pytest.MonkeyPatch, figure: Figure
) -> None:
    work, kept = tmp_path / "work", tmp_path / "kept"
    work.mkdir()
    kept.mkdir()
    if how == "environment":
        monkeypatch.setenv("RELIGHT_REDACT", "all")
    with relight.open(kept / "r.db") as rl:
        (work / f"{canary('file name')}.txt").write_text("x")
        (work / canary("directory")).mkdir()
        with rl.session("s", workspace=work, redact=True if how == "session" else None) as s:
            tell_all_data(s, canary)
        assert canary.found_in(*readable(rl), *files_in(kept)) == []
        left_out = rl.files.restore("s", dry_run=True).plans["main"].left_out
        assert [one.reason for one in left_out] == ["secret", "secret"], "left out, and said so"
    figure("G26", f"with redaction, canaries in {len(canary.locations)} places of a program's data: in no byte on disk")


def test_with_redaction_a_key_that_holds_a_secret_is_refused_before_anything_runs(tmp_path: Path) -> None:
    """It is what the effect is found by: changed it would not be found again, or be another one's."""
    key, ran = "pay with ghp_" + "a1B2" * 9, list[int]()

    def model(messages: Any) -> Any:
        return {"role": "assistant", "content": "done"}

    with relight.open(tmp_path / "r.db") as rl:
        with rl.session("s") as s:
            s.append({"role": "user", "content": "x"})
            assert s.once(key, lambda: ran.append(1)) is None, "its own data is its own, unless it asks"
        with rl.session("s", redact=True) as s:
            assert s.once(key, lambda: ran.append(2)) is None, "known by its key, as it was"
            refused(lambda: s.once(f"{key} again", lambda: ran.append(3)))
            refused(lambda: s.ask("may I?", key=key))
            refused(lambda: s.run(model, prompt="go", prompt_id=key))
            s.append(call("ghp_" + "c3D4" * 9, "sh", "{}"))
            assert "ghp_c3D4" not in repr(list(rl.history.events("s"))) + repr(s.calls)
        assert ran == [1]
        assert "again" not in repr(list(rl.history.events("s")))


def test_redaction_holds_for_good_once_it_was_asked_for(tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        with rl.session("s") as s:
            s.append({"role": "user", "content": "ghp_" + "a1B2" * 9})
        with rl.session("s", redact=True) as s:
            s.append({"role": "user", "content": "ghp_" + "a1B2" * 9})
        with rl.session("s") as s:
            s.append({"role": "user", "content": "ghp_" + "a1B2" * 9})
        said = [one["content"] for one in rl.history.load("s").messages]
        assert said == ["ghp_" + "a1B2" * 9, "[redacted:github-token]", "[redacted:github-token]"]
        with pytest.raises(UsageError, match="redact"):
            rl.session("s", redact=False)


@pytest.mark.parametrize("how", ["spawn", "parent", "inherited", "fork"])
def test_redaction_holds_for_the_sessions_below_too(
    tmp_path: Path, canary: Canaries, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        with rl.session("s", redact=True) as s:
            s.append({"role": "user", "content": canary("message")})
            if how == "spawn":
                with s.spawn("kid") as kid:
                    tell_all_data(kid, canary)
            elif how == "fork":
                rl.history.fork("s", name="kid")
        if how == "inherited":
            monkeypatch.setenv("RELIGHT_PARENT", s.id)
    if how != "spawn":
        with relight.open(tmp_path / "r.db") as rl, rl.session("kid", parent="s" if how == "parent" else None) as kid:
            tell_all_data(kid, canary)
    with relight.open(tmp_path / "r.db") as rl:
        assert canary.found_in(*readable(rl), *files_in(tmp_path)) == []
        with pytest.raises(UsageError, match="redact"):
            rl.session("other", parent="s", redact=False)


def test_redaction_that_a_parent_asks_for_later_holds_for_its_children_from_then_on(tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        for redact in (None, True):
            with rl.session("s", redact=redact) as s, s.spawn("kid") as kid:
                kid.append({"role": "user", "content": "ghp_" + "a1B2" * 9})
        said = [one["content"] for one in rl.history.load("s.kid").messages]
        assert said == ["ghp_" + "a1B2" * 9, "[redacted:github-token]"]


def test_a_restarted_loop_knows_its_prompt_although_it_was_redacted(tmp_path: Path, canary: Canaries) -> None:
    prompt = f"use {canary('prompt')}"
    with relight.open(tmp_path / "r.db") as rl:
        for _ in range(2):
            with rl.session("s", redact=True) as s:
                s.run(lambda messages: {"role": "assistant", "content": "done"}, prompt=prompt)
        assert len(rl.history.load("s").messages) == 2
        assert canary.found_in(*readable(rl)) == []


def test_the_rows_of_a_server_hold_none_of_it(canary: Canaries, program: Callable[[str], str]) -> None:
    with running() as server:
        url = server.database()
        with relight.open(url) as rl:
            tell_all_about(rl, canary)
        database = url.rpartition("/")[2].partition("?")[0]
        rows = [repr(server.execute(f"SELECT * FROM {table}", database=database)) for table in TABLES]
    assert len("".join(rows)) > 5000
    assert canary.found_in(*rows) == []
    redis = RedisServer(redis_program(program), {"appendonly": "yes"})
    try:
        with relight.open(redis.url) as rl:
            tell_all_about(rl, canary)
        at_rest = redis.bytes_at_rest()
    finally:
        redis.stop()
    assert len(at_rest) > 5000
    assert canary.found_in(at_rest) == []


def test_a_server_says_and_keeps_none_of_it(
    tmp_path: Path, canary: Canaries, recorded_spans: RecordedSpans, caplog: pytest.LogCaptureFixture
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    harness = ServerHarness(kept / "r.db")
    try:
        client = harness.client()
        with harness.rl.session("s", task="ok") as s:
            s.append({"role": "user", "content": "x"})
        answers = [
            client.post("/api/sessions/s/archive", json={"why": canary("audit entry")}),
            client.post("/api/sessions", json={"command": ["true", canary("command")], "name": "c"}),
            client.post("/api/sessions", json={"command": ["true"], "callback": {"url": f"https://a.example/{canary('callback')}"}}),
            client.get(f"/api/sessions/{canary('ref')}"),
            client.get(f"/api/sessions?search={canary('query')}"),
            client.get(f"/sessions/{canary('page')}", headers={"Accept": "text/html"}),
            client.post(f"/api/sessions/{canary('ref of a change')}/archive", json={}),
        ]  # fmt: skip
        shown = [one.text for one in answers]
        shown += [client.get(path).text for path in ("/", "/sessions/s", "/operations", "/metrics", "/api/sessions")]
        with caplog.at_level(logging.DEBUG, LOG.name):
            LOG.error("odd", extra={"said": canary("log"), "error": ValueError(canary("logged error"))})
        lines = [form.format(record) for record in caplog.records for form in (JsonLines(), PlainLines())]
        with pytest.raises(ValueError, match="ghp_"), span("odd", {"what": canary("attribute")}) as odd:
            odd.set("more", canary("later attribute"))
            raise ValueError(canary("error in a span"))
        reported = [one.to_json() for one in recorded_spans.exporter.get_finished_spans()]
        assert len(reported) > len(answers)
        assert canary.found_in(*shown, *lines, *reported, *readable(harness.rl), *files_in(kept)) == []
    finally:
        harness.close()


def test_what_a_program_prints_and_is_called_with_is_in_no_file(tmp_path: Path, canary: Canaries) -> None:
    kept, work = tmp_path / "kept", tmp_path / "work"
    for one in (kept, work):
        one.mkdir()
    shell = Shell(kept / "r.db", work)
    # On a line of its own: standard output and standard error meet in any order, and what follows a token without a
    # space may be taken for a part of it.
    (work / "said").write_text(canary("output") + "\n")
    (work / "say.sh").write_text('cat said; cat said >&2; test -n "$1" && echo got $(printf %s "$1" | wc -c); exit 3\n')
    done = shell.run("run", "--name", "front", "--retries", "0", "--", "sh", "say.sh", canary("command line"))
    assert done.returncode == 3 and "got 40" in done.stdout, "it was started with all of it"
    assert "not recorded" in done.stderr
    begun = shell.run("run", "--name", "back", "--detach", "--retries", "0", "--", "sh", "say.sh", canary("detached"))
    assert begun.returncode == 0, begun.stderr
    eventually(lambda: shell.json("show", "back")["status"] == "failed", what="its end")

    def logged() -> bool:  # the end is recorded before what the program printed has passed through the redactor
        return any(b"got 40" in data for path, data in files_below(kept) if path.name == "supervisor.log")

    eventually(logged, what="what it printed, in its log")
    [log] = [data for path, data in files_below(kept) if path.name == "supervisor.log"]
    assert b"[redacted:github-token]" in log, log
    again = shell.run("resume", "front", "--yes")
    assert again.returncode == 4 and "github-token" in again.stderr and "--secret" in again.stderr
    shell.run("export", "front", str(kept / "front.relight"))
    shell.run("export", "front", str(kept / "front"), "--json")
    assert canary.found_in(*files_in(kept), shell.run("show", "front", "--json").stdout) == []


def test_a_command_line_with_a_variables_value_starts_again_with_its_value(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "r.db", tmp_path)
    secret = {"SHOP_API_KEY": "s3cr3t-VALUE-7788990011"}
    words = ("--", "sh", "-c", 'echo "is $1"; exit 3', "sh", f"--key={secret['SHOP_API_KEY']}")
    first = shell.run("run", "--name", "shop", "--retries", "0", *words, **secret)
    assert "is --key=s3cr3t-VALUE" in first.stdout and first.returncode == 3
    assert shell.json("show", "shop", "--verbose")["command"][-1] == "--key=[redacted:SHOP_API_KEY]"
    again = shell.run("resume", "shop", "--yes", **secret)
    assert "is --key=s3cr3t-VALUE" in again.stdout
    without = shell.run("resume", "shop", "--yes")
    assert without.returncode == 4 and "SHOP_API_KEY" in without.stderr, "named before anything starts"


def test_a_worker_is_not_given_a_command_that_its_record_cannot_hold(tmp_path: Path, canary: Canaries) -> None:
    shell = Shell(tmp_path / "r.db", tmp_path)
    refused = shell.run("run", "--queue", "default", "--", "true", canary("command line"))
    assert refused.returncode == 2 and "nothing was queued" in refused.stderr
    assert canary.found_in(*files_in(tmp_path)) == []


# -- that nothing can be forgotten ------------------------------------------------------------------------------------


def test_every_field_that_is_stored_is_declared() -> None:
    unknown: set[str] = set()
    for kind, declared in DECLARED.items():
        fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
        texts = {name for name, inner in fields.items() if _can_hold_text(inner)}
        assert texts <= set(declared) <= set(fields), (
            f"{kind.__name__}: declare each field in journal/redaction/recorded_fields.py"
        )
        for name, inner in fields.items():
            for struct in _structs_in(inner):
                if declared.get(name) == "inside":
                    assert struct in DECLARED, f"{kind.__name__}.{name}"
                elif struct not in DECLARED and struct.__name__ not in PLAIN:
                    unknown.add(struct.__name__)
    assert not unknown


def _can_hold_text(kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return False  # words of ours
    parts = get_args(kind)
    return any(map(_can_hold_text, parts)) if parts else kind not in (int, float, bool, bytes, type(None), ...)


def _structs_in(kind: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for inner in get_args(kind):
        yield from _structs_in(inner)


def test_changes_are_encoded_only_where_they_were_redacted() -> None:
    callers = {
        path.relative_to(ROOT / "src/relight").as_posix()
        for path in (ROOT / "src/relight").rglob("*.py")
        if re.search(r"\bencode_changes\(", path.read_text()) and "testing" not in path.parts
    }
    redacting = {"sessions/recorder.py", "fleet/worker.py", "sessions/record_log.py", "bundles/export.py"}
    assert callers == redacting | {"journal/codec.py"}, "whoever encodes changes redacts them first"


def test_the_names_of_coding_agents_are_those_of_their_adapters(tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        agents = rl._context.agents
        assert agents.names == {one.name for one in agents.known()}


def test_an_error_of_a_refused_name_does_not_repeat_it(tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl, pytest.raises(RelightError) as error:
        rl.session("ghp_" + "a1B2" * 9)
    assert "a1B2" not in str(error.value)
