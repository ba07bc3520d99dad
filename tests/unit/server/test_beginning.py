"""Begin, adopt, edit, download and watch from the browser: only with the scope it needs; nothing runs twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import relight
from relight.errors import UsageError
from relight.journal.conversation.edited_message import text_of_message, with_text
from relight.values.options import RunOptions
from tests.support.calls import call
from tests.support.server_harness import ServerHarness

SENT: list[str] = []


@relight.tool(effect="once")
def send_mail(to: str) -> str:
    SENT.append(to)
    return f"sent to {to}"


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "old"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "old"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "old"}]},
        {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "old"}]}]},
        {"role": "tool", "tool_call_id": "c", "content": "old"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "old"}]},
        {"type": "function_call_output", "call_id": "c", "output": "old"},
        {"role": "model", "parts": [{"text": "old"}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "c", "content": [{"text": "old"}]}}]},
    ],
)
def test_only_the_text_of_a_message_is_edited(message: dict[str, Any]) -> None:
    before = str(message)
    edited = with_text(message, "new")
    assert (
        text_of_message(edited) == "new" and str(edited) == before.replace("'old'", "'new'") and str(message) == before
    )


def test_a_message_without_text_cannot_be_edited() -> None:
    with pytest.raises(UsageError):
        with_text({"role": "user", "content": [{"type": "image", "source": {}}]}, "new")


def test_an_edited_result_is_read_by_the_fork_and_nothing_runs_twice(harness: ServerHarness) -> None:
    SENT.clear()
    with harness.rl.session("mails") as s:
        s.append({"role": "user", "content": "write to ada"})
        s.append(call("c1", "send_mail", '{"to": "ada"}'))
        s.run_tool(s.pending_calls()[0], [send_mail])
        at = harness.rl.sessions.get("mails").head
        s.complete("done")
    client = harness.client("operate")
    dialog = client.get(f"/checkpoints/{s.id}@{at}/do/edit", headers={"accept": "text/html"}).text
    assert "sent to ada" in dialog and "not undone" in dialog
    made = client.post(f"/api/sessions/{s.id}@{at}/fork", json={"name": "other", "edit": "it bounced"})
    assert made.status_code == 201, made.text
    fork = harness.rl.history.load("other")
    assert "it bounced" in str(fork.messages[-1]) and "sent to ada" not in str(fork.messages)
    with harness.rl.session("other") as s2:
        assert s2.pending_calls() == []
    assert SENT == ["ada"] and "sent to ada" in str(harness.rl.history.load("mails").messages)
    both = client.post(f"/api/sessions/{s.id}@{at}/fork", json={"edit": "a", "prompt": "b"})
    assert both.status_code == 400


def test_a_download_is_a_bundle_that_can_be_imported(harness: ServerHarness, tmp_path: Path) -> None:
    with harness.rl.session("move-me") as s:
        s.append({"role": "user", "content": "hello"})
        s.complete(1)
    got = harness.client("read").get(f"/api/sessions/{s.id}/export")
    assert got.status_code == 200 and 'filename="move-me.relight"' in got.headers["content-disposition"]
    (tmp_path / "b.relight").write_bytes(got.content)
    with relight.open(f"sqlite:///{tmp_path}/other.db") as other:
        other.history.import_(tmp_path / "b.relight")
        assert other.sessions.get("move-me").status == "completed"
    assert list((harness.settings.directory / "exports").glob("*.relight")) == []
    page = harness.client("read").get(f"/sessions/{s.id}/do/export", headers={"accept": "text/html"}).text
    assert f'href="/api/sessions/{s.id}/export" download' in page


def test_output_is_bounded_redacted_and_never_a_link(harness: ServerHarness, tmp_path: Path) -> None:
    made = harness.rl.runs.create(["true"], RunOptions(directory=str(tmp_path), agent="command", name="prints"))
    client = harness.client("read")
    page = f"/sessions/{made.id}/output"
    assert "Nothing to show" in client.get(page, headers={"accept": "text/html"}).text
    directory = harness.rl.runs.directory("prints")
    directory.mkdir(parents=True, exist_ok=True)
    key = "sk-ant-api03-" + "a1B2c3D4e5" * 9
    (directory / "output.log").write_text("first\n" + "x" * 70_000 + f"\nkey {key}\n<script>last</script>\n")
    (directory / "supervisor.log").symlink_to("/etc/passwd")
    text = client.get(page, headers={"accept": "text/html"}).text
    assert "&lt;script&gt;last" in text and key not in text and "first" not in text and "root:" not in text


def test_who_is_not_admin_is_told_so_before_starting(harness: ServerHarness) -> None:
    html = {"accept": "text/html"}
    assert "needs the scope admin" in harness.client("operate").get("/do/new", headers=html).text
    assert "needs the scope admin" in harness.client("read").get("/do/adopt", headers=html).text
    assert "needs the scope admin" not in harness.client("admin").get("/do/new", headers=html).text
    assert harness.client("operate").post("/api/adopt", json={"native": "x"}).status_code == 403
    assert harness.client("admin").post("/api/adopt", json={"native": "nothing-there"}).status_code == 404


def test_who_continues_after_a_limit_is_chosen_with_the_start(harness: ServerHarness, tmp_path: Path) -> None:
    given = {"agent": "claude", "prompt": "go", "directory": str(tmp_path), "queue": "night"}
    limits = {"fallback": ["codex"], "returns": True, "windows": 3, "quiet_hours": "22:00-07:00"}
    with harness.client("admin") as client:
        made = client.post("/api/sessions", json={**given, **limits})
        refused = client.post("/api/sessions", json={"command": ["true"], "directory": str(tmp_path), **limits})
        page = client.get("/do/new", headers={"Accept": "text/html"}).text
    assert made.status_code == 201, made.text
    record = harness.rl.store.find(made.json()["session"]["id"])
    assert record is not None
    policy = record.identity.policy
    assert (policy.fallback, policy.returns, policy.windows) == (("codex",), True, 3)
    assert policy.quiet_hours == "22:00-07:00"
    assert refused.status_code == 400 and "for coding agents" in refused.json()["detail"]
    assert 'name="fallback" value="codex"' in page
