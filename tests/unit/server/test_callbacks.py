"""Callbacks: signed, retried, found again after a restart, and never to an address that only this machine reaches."""

from __future__ import annotations

import hmac
import ipaddress
import json
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import apsw
import pytest

import relight
from relight.errors import UsageError
from relight.server.jobs import safe_post
from relight.server.jobs.callbacks import Callbacks
from relight.testing.clock import ManualClock
from tests.support.figures import Figure
from tests.support.server_harness import Answer, ServerHarness


class Receiver:
    """A real server of somebody else, that answers as it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.heard.append((dict(self.headers), body))
                self.send_response(outer.answers.pop(0) if outer.answers else 200)
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?a=b"
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(now_us=time.time_ns() // 1000)


@pytest.fixture
def harness(tmp_path: Path, clock: ManualClock) -> Iterator[ServerHarness]:
    made = ServerHarness(tmp_path / "p.db", clock=clock, callback_allow=("127.0.0.0/8",), callback_tries=3)
    yield made
    made.close()


def work(rl: relight.Relight, name: str, *, asks: bool = False) -> str:
    with suppress(relight.Waiting), rl.session(name) as s:
        if s.is_new:
            s.append({"role": "user", "content": "x"})
        if asks:
            s.ask("really?")
        s.complete("done")
    return rl.sessions.get(name).id


@pytest.mark.guarantee("G24")
def test_a_delivery_says_what_happened_and_proves_who_sent_it(harness: ServerHarness, receiver: Receiver) -> None:
    callbacks = harness.service.callbacks
    session = work(harness.rl, "job", asks=True)
    callbacks.add(session, receiver.url, after_seq=0)
    callbacks.scan()
    assert callbacks.deliver() == 1
    harness.rl.runs.send("job", "yes")
    work(harness.rl, "job", asks=True)
    callbacks.scan()
    callbacks.deliver()
    assert [json.loads(body)["status"] for _, body in receiver.heard] == ["waiting", "completed"]
    headers, body = receiver.heard[-1]
    reported = json.loads(body)
    assert reported.keys() == {"session", "status", "reason", "seq", "attempt", "at"} and reported["session"] == session
    parts = dict(part.split("=") for part in headers["Relight-Signature"].split(","))
    secret = (harness.settings.directory / "callback-secret").read_bytes().strip()
    assert stat.S_IMODE((harness.settings.directory / "callback-secret").stat().st_mode) == 0o600
    assert parts["v1"] == hmac.new(secret, f"{parts['t']}.".encode() + body, sha256).hexdigest()
    assert headers["Relight-Delivery"] == "2"
    callbacks.scan()
    assert callbacks.deliver() == 0 and harness.service.state.rows("SELECT * FROM callbacks") == []
    listed = harness.client("read").get("/api/sessions/job/callbacks").json()["items"]
    assert [one["state"] for one in listed] == ["delivered", "delivered"]


def test_a_failed_delivery_is_tried_again_later_and_given_up_in_the_end(
    harness: ServerHarness, receiver: Receiver, clock: ManualClock
) -> None:
    callbacks = harness.service.callbacks
    callbacks.add(work(harness.rl, "job"), receiver.url, after_seq=0)
    callbacks.scan()
    receiver.answers = [500, 302, 500]  # a redirect is an answer like another, and is not followed
    for tries in (1, 2, 3):
        assert callbacks.deliver() == 1 and len(receiver.heard) == tries
        assert callbacks.deliver() == 0  # not yet
        clock.advance(10)
    assert callbacks.deliver() == 0 and len(receiver.heard) == 3
    (kept,) = callbacks.deliveries(harness.rl.sessions.get("job").id)
    assert kept["state"] == "given up" and kept["tries"] == 3 and kept["said"] == "answered 500"


def test_what_happened_while_no_server_ran_is_told_by_the_next(tmp_path: Path, receiver: Receiver) -> None:
    store = tmp_path / "p.db"
    first = ServerHarness(store, callback_allow=("127.0.0.1",))
    with first.rl.session("job") as s:
        s.append({"role": "user", "content": "x"})
    session = first.rl.sessions.get("job").id
    first.service.callbacks.add(session, receiver.url, after_seq=first.rl.sessions.get("job").seq)
    first.close()  # it is gone; the session goes on without it
    with relight.open(store) as rl:
        work(rl, "job")
    second = ServerHarness.again(store, callback_allow=("127.0.0.1",))
    with second.client():  # its own loop does it
        deadline = time.monotonic() + 60
        while not receiver.heard and time.monotonic() < deadline:
            time.sleep(0.02)
    assert [json.loads(body)["status"] for _, body in receiver.heard] == ["completed"]
    second.close()


def test_a_damaged_session_keeps_nobody_elses_callback(harness: ServerHarness, receiver: Receiver) -> None:
    callbacks = harness.service.callbacks
    broken = work(harness.rl, "broken")
    with apsw.Connection(str(harness.store)) as damaged:
        damaged.execute("UPDATE bodies SET data = x'00' WHERE id = (SELECT max(body) FROM steps)")
    whole = work(harness.rl, "whole")
    for session in (broken, whole):
        callbacks.add(session, receiver.url, after_seq=0)
    callbacks.scan()
    callbacks.deliver()
    assert [json.loads(body)["session"] for _, body in receiver.heard] == [whole]


def test_an_end_after_more_steps_than_one_look_reads_is_told_although_nothing_happens_any_more(
    harness: ServerHarness, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relight.server.jobs.callbacks._PAGE", 2)
    callbacks = harness.service.callbacks
    callbacks.add(work(harness.rl, "job"), receiver.url, after_seq=0)
    for _ in range(harness.rl.sessions.get("job").seq):
        callbacks.scan()
        callbacks.deliver()
    assert [json.loads(body)["status"] for _, body in receiver.heard] == ["completed"]


def test_who_asks_to_be_told_while_the_journal_is_looked_at_is_told(
    harness: ServerHarness, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    callbacks = harness.service.callbacks
    first, second = work(harness.rl, "first"), work(harness.rl, "second")
    callbacks.add(first, receiver.url, after_seq=0)
    steps = harness.service.rl.history.events

    def meanwhile(*args: Any, **more: Any) -> Any:
        monkeypatch.undo()
        callbacks.add(second, receiver.url, after_seq=0)
        return steps(*args, **more)

    monkeypatch.setattr(harness.service.rl.history, "events", meanwhile)
    for _ in range(2):
        callbacks.scan()
        callbacks.deliver()
    assert [json.loads(body)["session"] for _, body in receiver.heard] == [first, second]


REFUSED = [
    *("127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
    *("192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1"),
    *("ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:db8::1"),
    *(
        "192.0.0.192",
        "192.0.0.8",
        "192.88.99.1",
        "fec0::1",
        "3fff::1",
        "64:ff9b:1::1",
        "100::1",
        "5f00::1",
        "2001:2::1",
    ),
]
PUBLIC = ["93.184.216.34", "8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8"]


@pytest.mark.guarantee("G24")
def test_only_public_addresses_are_reached(figure: Figure) -> None:
    for text in REFUSED:
        assert not safe_post.may_reach("x.example", ipaddress.ip_address(text), ()), text
    for text in PUBLIC:
        assert safe_post.may_reach("x.example", ipaddress.ip_address(text), ()), text
    assert safe_post.may_reach("hook.lan", ipaddress.ip_address("10.1.2.3"), ("hook.lan",))
    assert safe_post.may_reach("x", ipaddress.ip_address("10.1.2.3"), ("10.0.0.0/8",))
    assert not safe_post.may_reach("x", ipaddress.ip_address("10.1.2.3"), ("hook.lan", "192.168.0.0/16"))
    figure("G24", f"{len(REFUSED)} kinds of addresses that are not public: all refused")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/", "file:///etc/passwd", "http://", "https://user:pass@example.com/", "http://127.0.0.1/",
        "http://[::1]/", "http://2130706433/", "http://169.254.169.254/latest", "example.com", "http://a b/",
        "http://example.com:99999/", "http://exämple.com/", "http://x\r\nHost: y/", "http://0x7f.1/", "http://127.1/",
        "http://017700000001/", "http://localhost:8080/", "http://LocalHost./", "http://a.localhost/", "http://0/",
        "http://[::ffff:127.0.0.1]/", "http://[fe80::1%25eth0]/",
    ],
)  # fmt: skip
def test_an_address_that_would_never_be_called_is_refused_at_once(url: str) -> None:
    with pytest.raises(UsageError):
        safe_post.checked(url, ())
    with pytest.raises(safe_post.Unreachable):
        safe_post.post(url, b"{}", {}, allow=(), seconds=2)


def test_a_name_that_only_the_resolver_knows_to_lead_inside_is_not_called(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", receiver.server.server_port))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: inside)
    with pytest.raises(safe_post.Unreachable, match="not public"):
        safe_post.post("http://inside.example/", b"{}", {}, allow=(), seconds=2)
    assert not receiver.heard


def test_two_servers_of_one_store_tell_a_thing_once(
    harness: ServerHarness, receiver: Receiver, clock: ManualClock
) -> None:
    settings: dict[str, Any] = {"callback_allow": ("127.0.0.0/8",), "callback_tries": 3}
    other = ServerHarness.again(harness.store, clock=clock, **settings)
    both = [harness.service.callbacks, other.service.callbacks]
    both[0].add(work(harness.rl, "job"), receiver.url, after_seq=0)
    start = threading.Barrier(2)

    def rounds(one: Callbacks) -> None:
        for _ in range(3):
            start.wait(60)
            one.scan()
            one.deliver()

    threads = [threading.Thread(target=rounds, args=(one,)) for one in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [headers["Relight-Delivery"] for headers, _ in receiver.heard] == ["1"]
    (kept,) = both[1].deliveries(harness.rl.sessions.get("job").id)
    assert kept["state"] == "delivered"
    other.close()


@pytest.mark.guarantee("G24")
def test_a_name_is_resolved_once_and_connected_as_it_was_checked(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that leads outside when it is looked at and inside when it is called."""
    looked: list[str] = []
    real = socket.getaddrinfo

    def rebinding(host: Any, port: Any, *args: Any, **more: Any) -> Any:
        if host != "rebind.example":
            return real(host, port, *args, **more)
        looked.append(host)
        address = "93.184.216.34" if len(looked) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    connected: list[Any] = []

    def connect(address: Any, *args: Any, **more: Any) -> Any:
        connected.append(address)
        raise ConnectionRefusedError("nobody is called in a test")

    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(safe_post.Unreachable):
        safe_post.post("http://rebind.example:8080/x", b"{}", {}, allow=(), seconds=2)
    assert looked == ["rebind.example"] and connected == [("93.184.216.34", 8080)]
    looked.append("again")
    with pytest.raises(safe_post.Unreachable, match="not public"):
        safe_post.post("http://rebind.example:8080/x", b"{}", {}, allow=(), seconds=2)


@pytest.mark.guarantee("G27")
def test_an_answer_that_drips_is_not_waited_for() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def drip() -> None:
        connection, _ = listener.accept()
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        try:
            while not ended.wait(0.1):
                connection.sendall(b"X-Drip: 1\r\n")
        except OSError:
            pass
        finally:
            connection.close()

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    began = time.monotonic()
    with pytest.raises(safe_post.Unreachable):
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        safe_post.post(url, b"{}", {}, allow=("127.0.0.1",), seconds=0.5)
    assert time.monotonic() - began < 60
    ended.set()
    thread.join()
    listener.close()


def test_a_resume_with_a_bad_callback_starts_nothing(harness: ServerHarness) -> None:
    work(harness.rl, "job")
    body = {"prompt": "x", "callback": {"url": "http://10.0.0.1/"}}
    refused: Callable[..., Any] = harness.client().post
    assert Answer(refused("/api/sessions/job/resume", json=body)).status == 400
    assert harness.service.state.rows("SELECT * FROM callbacks") == []
