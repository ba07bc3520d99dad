"""`relight notify`: each cause reaches each address once, over restarts too; an address that fails is tried again."""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.errors import UsageError
from relight.notifications.notify import MAX_AT_ONCE, notify, parse_target
from tests.support.shell import Shell


class Receiver:
    """A real HTTP server on loopback that remembers what it got; `status` is its reply."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], Any, bytes]] = []
        self.status = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if outer.status == 200:
                    outer.got.append((self.path, dict(self.headers), json.loads(body), body))
                self.send_response(outer.status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    one = Receiver()
    yield one
    one.server.shutdown()
    one.server.server_close()


def ask(rl: relight.Relight, name: str, question: str) -> None:
    with suppress(relight.Waiting), rl.session(name) as s:
        s.append({"role": "user", "content": "begin"})
        s.ask(question)


def test_each_cause_is_told_once_to_each_address_and_again_when_it_is_new(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELIGHT_NOTIFY_SECRET", "fake-secret-of-a-test")
    targets = (f"{receiver.url}/hook", f"ntfy:{receiver.url}/agents")
    with relight.open(tmp_path / "r.db") as rl:
        ask(rl, "shop", "push to main? é")
        notify(rl, targets, link="https://relight.example/")
        assert notify(rl, targets).sent == []
        session = rl.sessions.get("shop").id
    with relight.open(tmp_path / "r.db") as rl:  # a new process
        assert notify(rl, targets).sent == []
        rl.runs.send("shop", "no")
        assert notify(rl, targets).sent == []
        ask(rl, "shop", "and now?")
        assert len(notify(rl, targets).sent) == 2
    (hook, headers, told, body), (root, _, message, _) = receiver.got[:2]
    link = f"https://relight.example/sessions/{session}"
    assert (hook, told["session"], told["kind"], told["link"]) == ("/hook", session, "waiting", link)
    at, _, signed = headers["Relight-Signature"].removeprefix("t=").partition(",v1=")
    assert signed == hmac.new(b"fake-secret-of-a-test", f"{at}.".encode() + body, sha256).hexdigest()
    assert (root, message["topic"], message["click"], message["priority"]) == ("/", "agents", link, 4)
    assert "push to main? é" in told["text"] and "push to main? é" in message["message"]


@pytest.mark.parametrize("status", [503, 302])
def test_an_address_that_refuses_is_tried_again_and_no_redirect_is_followed(
    tmp_path: Path, receiver: Receiver, status: int
) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        ask(rl, "shop", "push?")
        receiver.status = status
        failed = notify(rl, [f"{receiver.url}/hook"])
        assert failed.sent == [] and f"HTTP {status}" in failed.failed[0]
        receiver.status = 200
        assert len(notify(rl, [f"{receiver.url}/hook"]).sent) == 1 == len(receiver.got)


def test_many_causes_at_once_are_one_message(tmp_path: Path, receiver: Receiver) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        for number in range(MAX_AT_ONCE + 2):
            ask(rl, f"s{number}", "push?")
        (one,) = notify(rl, [f"{receiver.url}/hook"]).sent
        assert one.title == f"{MAX_AT_ONCE + 2} sessions need you"
        assert notify(rl, [f"{receiver.url}/hook"]).sent == []


def test_the_command_sends_once_and_says_what_failed(shell: Shell, receiver: Receiver) -> None:
    with relight.open(shell.address) as rl:
        ask(rl, "shop", "push?")
    test = shell.run("notify", f"{receiver.url}/hook", "--test")
    assert test.returncode == 0 and receiver.got[0][2]["kind"] == "test"
    receiver.status = 500
    refused = shell.run("notify", f"{receiver.url}/hook", "--once")
    assert refused.returncode == 1 and "HTTP 500" in refused.stderr + refused.stdout
    receiver.status = 200
    assert shell.json("notify", f"{receiver.url}/hook", "--once")["name"] == "shop"


@pytest.mark.parametrize(
    "address", ["", "topic", "ftp://x/y", "http://example.org/x", "ntfy:https://ntfy.sh/", "https:///x"]
)
def test_what_is_no_address_or_readable_by_others_is_refused(address: str) -> None:
    with pytest.raises(UsageError):
        parse_target(address)
    assert parse_target("ntfy:topic").url == "https://ntfy.sh/topic"
