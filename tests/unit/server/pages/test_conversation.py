"""Pictures of a conversation, and conversations that are not ours yet: shown when wanted, and nothing but that."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from relight.agents.claude_code.directories import project_key
from relight.server.pages.conversation import MAX_IMAGE
from tests.support.scripted_agent import install
from tests.support.server_harness import ServerHarness
from tests.support.shell import Shell

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
CLAUDE = "5f0c1f2e-1111-4222-8333-444455556666"


def shown(content: bytes, media: str = "image/png") -> dict[str, Any]:
    source = {"type": "base64", "media_type": media, "data": base64.b64encode(content).decode()}
    return {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image", "source": source}]}


def said(harness: ServerHarness, message: dict[str, Any]) -> str:
    with harness.rl.session("pictures", provider="anthropic") as s:
        s.append(message)
        s.complete(1)
        return str(s.id)


def test_a_picture_in_the_journal_is_shown_on_request_and_is_nothing_but_a_picture(harness: ServerHarness) -> None:
    session = said(harness, shown(PNG))
    client = harness.client("read")
    text = client.get(f"/sessions/{session}?tab=conversation", headers={"accept": "text/html"}).text
    assert f'loading="lazy" src="/sessions/{session}/picture?seq=2&amp;part=1"' in text
    answer = client.get(f"/sessions/{session}/picture?seq=2&part=1")
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, PNG, "image/png")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"


@pytest.mark.parametrize(
    ("content", "media"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "image/svg+xml"),
        (b"<script>alert(1)</script>", "image/png"),
        (b"GIF7", "image/gif"),
        (b"RIFF0000WAVE", "image/webp"),
    ],
)
def test_what_only_says_that_it_is_a_picture_is_not_shown(harness: ServerHarness, content: bytes, media: str) -> None:
    session = said(harness, shown(content, media))
    assert harness.client("read").get(f"/sessions/{session}/picture?seq=2&part=1").status_code == 404


@pytest.mark.parametrize("query", ["seq=2&part=0", "seq=2&part=9", "seq=2&part=-1", "seq=0&part=1", "seq=99&part=1"])
def test_where_there_is_no_picture_there_is_none(harness: ServerHarness, query: str) -> None:
    session = said(harness, shown(PNG))
    assert harness.client("read").get(f"/sessions/{session}/picture?{query}").status_code == 404


def test_a_picture_that_is_too_large_or_elsewhere_is_only_named(harness: ServerHarness) -> None:
    url = {"type": "image", "source": {"type": "url", "url": "https://example.com/" + "a" * 5000}}
    large = shown(PNG + b"\0" * MAX_IMAGE)["content"][1]
    session = said(harness, {"role": "user", "content": [url, large]})
    client = harness.client("read")
    text = client.get(f"/sessions/{session}?tab=conversation", headers={"accept": "text/html"}).text
    assert "<img" not in text and "10 MB" in text and "https://example.com/aaa" in text and len(text) < 50_000
    assert client.get(f"/sessions/{session}/picture?seq=2&part=1").status_code == 404


# -- conversations that are not ours yet --------------------------------------------------------------------------


def begun(home: Path, directory: Path, native: str = CLAUDE) -> None:
    """A session of Claude Code, as its own file has it."""
    line = {"type": "user", "cwd": str(directory), "timestamp": "2026-11-15T08:58:37.605Z", "uuid": CLAUDE,
            "sessionId": native, "message": {"role": "user", "content": "hello"}}  # fmt: skip
    project = home / ".claude" / "projects" / project_key(str(directory))
    project.mkdir(parents=True, exist_ok=True)
    (project / f"{native}.jsonl").write_text(json.dumps(line) + "\n")


def test_an_empty_page_offers_what_could_be_adopted_on_this_machine(
    harness: ServerHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, work = tmp_path / "home", tmp_path / "my work"
    work.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("CODEX_HOME", raising=False)
    client = harness.client("read")
    assert "can be adopted" not in client.get("/", headers={"accept": "text/html"}).text
    begun(home, work)
    begun(home, tmp_path / "gone", native=CLAUDE.replace("5f0c", "6f0c"))
    text = client.get("/", headers={"accept": "text/html"}).text
    assert "1 session of claude on this machine can be adopted" in text
    assert f"cd &#39;{work}&#39; &amp;&amp; relight adopt {CLAUDE}" in text
    assert "1 session of claude on this machine can be adopted" in Shell(harness.store, tmp_path).run("doctor").stdout
    (only,) = client.get("/api/adoptable").json()["items"]
    assert (only["agent"], only["native"], only["directory"]) == ("claude", CLAUDE, str(work))


def test_looking_for_them_is_bounded_and_leaves_out_what_is_ours(
    harness: ServerHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    for n in range(60):
        begun(tmp_path, tmp_path, native=f"{n:08x}-1111-4222-8333-444455556666")
    assert len(harness.rl.runs.adoptable()) == 50
    assert "at least 50 sessions of claude" in harness.client("read").get("/", headers={"accept": "text/html"}).text
    newest = harness.rl.runs.adoptable(most=3)
    assert len(newest) == 3
    monkeypatch.setenv("PATH", str(install(tmp_path / "bin").parent), prepend=os.pathsep)
    harness.rl.runs.adopt(newest[0].native, directory=str(tmp_path), command=[], name=None)
    assert newest[0] not in harness.rl.runs.adoptable(most=3)
