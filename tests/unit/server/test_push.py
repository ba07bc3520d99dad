"""Web push on loopback: a browser subscribes over HTTP; a push service that knows the browser's keys reads what it is
sent, and checks who sent it."""

from __future__ import annotations

import json
import sys
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import relight
from relight.errors import UsageError
from relight.notifications import web_push
from relight.notifications.notify import notify, parse_target
from relight.values.queues import PushSubscription
from tests.support.server_harness import ServerHarness

CURVE = ec.SECP256R1()


def text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def data(given: str) -> bytes:
    return urlsafe_b64decode(given + "=" * (-len(given) % 4))


def point(private: ec.EllipticCurvePrivateKey) -> bytes:
    return private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


class Browser:
    """A browser's keys, and its push service, which answers with `status`."""

    def __init__(self) -> None:
        self.private, self.secret = ec.generate_private_key(CURVE), b"0123456789abcdef"
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.status = 201
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if outer.status == 201:
                    outer.got.append((dict(self.headers), body))
                self.send_response(outer.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def subscription(self) -> dict[str, Any]:
        keys = {"p256dh": text(point(self.private)), "auth": text(self.secret)}
        return {"endpoint": f"{self.origin}/send/abc", "expirationTime": None, "keys": keys}

    def read(self, body: bytes) -> Any:
        """Decrypted as RFC 8291 says."""
        salt, size, named = body[:16], int.from_bytes(body[16:20], "big"), body[21 : 21 + body[20]]
        assert len(body) <= size == 4096
        theirs = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, named)
        shared = self.private.exchange(ec.ECDH(), theirs)
        info = b"WebPush: info\0" + point(self.private) + named
        first = HKDF(algorithm=hashes.SHA256(), length=32, salt=self.secret, info=info).derive(shared)

        def derived(kind: bytes, length: int) -> bytes:
            made = HKDF(algorithm=hashes.SHA256(), length=length, salt=salt, info=b"Content-Encoding: " + kind + b"\0")
            return made.derive(first)

        plain = AESGCM(derived(b"aes128gcm", 16)).decrypt(derived(b"nonce", 12), body[21 + body[20] :], None)
        assert plain[-1:] == b"\2"
        return json.loads(plain[:-1])

    def check_sender(self, headers: dict[str, str], public: str) -> dict[str, Any]:
        """The claims of the sender, whose signature fits the key that this browser has subscribed with."""
        token, key = headers["Authorization"].removeprefix("vapid t=").split(", k=")
        assert key == public
        signed, _, signature = token.rpartition(".")
        raw = data(signature)
        pair = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
        known = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, data(public))
        known.verify(pair, signed.encode(), ec.ECDSA(hashes.SHA256()))
        with pytest.raises(InvalidSignature):
            known.verify(pair, signed.encode() + b"x", ec.ECDSA(hashes.SHA256()))
        found: dict[str, Any] = json.loads(data(signed.partition(".")[2]))
        return found


@pytest.fixture
def browser() -> Iterator[Browser]:
    one = Browser()
    yield one
    one.server.shutdown()
    one.server.server_close()


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ServerHarness]:
    made = ServerHarness(tmp_path / "r.db")
    yield made
    made.close()


def ask(rl: relight.Relight, name: str, question: str) -> None:
    with suppress(relight.Waiting), rl.session(name) as s:
        s.append({"role": "user", "content": "begin"})
        s.ask(question)


def test_a_subscribed_browser_alone_reads_what_only_this_store_can_send(
    harness: ServerHarness, browser: Browser
) -> None:
    client, rl = harness.client("operate"), harness.rl
    public = client.post("/api/push/key", json={}).json()["public_key"]
    assert client.post("/api/push/key", json={}).json()["public_key"] == public
    made = client.post("/api/push", json=browser.subscription())
    assert made.status_code == 201, made.text
    assert made.headers["location"] == f"/api/push/{made.json()['name']}"
    ask(rl, "shop", "push to main? é" + "ß" * 4000)
    assert len(notify(rl, ["push"], link="https://relight.example").sent) == 1
    assert notify(rl, ["push"]).sent == []
    [(headers, body)] = browser.got
    message = browser.read(body)
    assert message["title"] == "shop: waiting" and "push to main? é" in message["text"]
    assert message["path"] == f"/sessions/{rl.sessions.get('shop').id}"
    claims = browser.check_sender(headers, public)
    assert claims["aud"] == browser.origin and time.time() < claims["exp"] < time.time() + 86_400
    assert headers["Content-Encoding"] == "aes128gcm" and headers["Urgency"] == "high" and int(headers["Ttl"]) > 0
    assert b"push to main" not in body
    listed = json.dumps(client.get("/api/actions").json())
    assert browser.subscription()["endpoint"] not in listed and text(browser.secret) not in listed
    assert client.delete(f"/api/push/{made.json()['name']}").status_code == 200
    ask(rl, "other", "and now?")
    done = notify(rl, ["push"])
    assert not done.sent and "no browser has subscribed" in done.failed[0]


@pytest.mark.parametrize(("status", "is_kept"), [(410, False), (404, False), (500, True)])
def test_a_browser_that_is_gone_is_forgotten_and_a_service_that_fails_is_tried_again(
    harness: ServerHarness, browser: Browser, status: int, is_kept: bool
) -> None:
    harness.client("operate").post("/api/push", json=browser.subscription())
    ask(harness.rl, "shop", "really?")
    browser.status = status
    assert notify(harness.rl, ["push"]).failed
    assert bool(web_push.subscriptions(harness.rl.store)) == is_kept
    browser.status = 201
    assert len(notify(harness.rl, ["push"]).sent) == len(browser.got) == int(is_kept)


@pytest.mark.parametrize(
    "wrong",
    [
        {"endpoint": "http://push.example/abc"},
        {"endpoint": "file:///etc/passwd"},
        {"keys": {"p256dh": "AAAA", "auth": "AAAA"}},
        {"keys": {"p256dh": "é", "auth": "x"}},
    ],
)
def test_what_is_no_subscription_is_refused(harness: ServerHarness, browser: Browser, wrong: dict[str, Any]) -> None:
    answer = harness.client("operate").post("/api/push", json={**browser.subscription(), **wrong})
    assert answer.status_code in (400, 422) and not web_push.subscriptions(harness.rl.store)
    assert harness.client("read").post("/api/push", json=browser.subscription()).status_code == 403


def test_without_the_package_that_encrypts_it_is_refused_in_a_sentence(
    harness: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(UsageError, match="needs the package cryptography"):
        parse_target("push")
    answer = harness.client("operate").post("/api/push/key", json={})
    assert answer.status_code == 400 and "needs the package cryptography" in answer.json()["detail"]


def test_a_message_is_encrypted_as_the_standard_shows() -> None:
    """The example of RFC 8291, appendix A."""
    sender, receiver = (
        ec.derive_private_key(int.from_bytes(data(one), "big"), CURVE)
        for one in ("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw", "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94")
    )
    to = PushSubscription(endpoint="", public=point(receiver), secret=data("BTBZMqHH6r4Tts7J_aSIgg"))
    plain, salt = b"When I grow up, I want to be a watermelon", data("DGv6ra1nlYgDCS1FRnbzlw")
    assert text(web_push.encrypted(plain, to, ephemeral=sender, salt=salt)) == (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl"
        "7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )
