"""Web push: messages to browsers that have subscribed, through the push services of their vendors.

A message is encrypted for its browser (RFC 8291), so the service reads nothing, and signed with a key of this store
(VAPID, RFC 8292), so no other sender can use the subscription. Key and subscriptions are records of the store: a
process that can read the store can send. Needs the package `cryptography`.
"""

from __future__ import annotations

import json
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from hmac import new as hmac
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from relight.errors import UsageError
from relight.journal.queues.small_records import pack_record, unpack_record
from relight.ports.store import Store
from relight.values.queues import PushKey, PushSubscription

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_KEY_NAME: Final = "key"
MAX_SUBSCRIPTIONS: Final = 100
MAX_PAYLOAD_BYTES: Final = 3000
"""a push service takes 4096 with everything around it"""
_RECORD_BYTES: Final = 4096
_KEEP_SECONDS: Final = 86_400
"""how long the service keeps a message for a browser that is off"""
_SIGNED_SECONDS: Final = 12 * 3600
_POINT_BYTES: Final = 65
_SECRET_BYTES: Final = 16


def public_key(store: Store) -> str:
    """The key that browsers subscribe with; made at first use."""
    return encoded(_point(_private(_key(store))))


def _key(store: Store) -> PushKey:
    for _ in range(2):
        stored = store.list_records("push").get(_KEY_NAME)
        found = unpack_record(stored, PushKey) if stored is not None else None
        if found is not None:
            return found
        from cryptography.hazmat.primitives.asymmetric import ec

        made = ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value.to_bytes(32, "big")
        # Of two processes that make one at the same time, one wins: a browser has subscribed with it.
        store.exchange_record("push", _KEY_NAME, stored, pack_record(PushKey(private=made)))
    raise UsageError("the key for web push could not be stored; try again")


def check_installed() -> None:
    """UsageError unless the package that encrypts is installed."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        hints = ["pip install 'relight[push]'", "or use ntfy: relight notify ntfy:TOPIC"]
        raise UsageError("web push needs the package cryptography, which is not installed", hints=hints) from None


# -- subscriptions ---------------------------------------------------------------------------------------------


def subscribe(store: Store, endpoint: str, p256dh: str, auth: str, *, loopback: bool = False) -> str:
    """Store a browser's subscription; its name. UsageError if it is none, or there are too many."""
    parts = urlsplit(endpoint)
    is_here = loopback and parts.hostname in ("127.0.0.1", "localhost", "::1")
    if parts.scheme != "https" and not is_here:
        raise UsageError("the address of a push service begins with https://")
    made = PushSubscription(endpoint=endpoint, public=decoded(p256dh), secret=decoded(auth))
    if len(made.public) != _POINT_BYTES or made.public[:1] != b"\x04" or len(made.secret) != _SECRET_BYTES:
        raise UsageError("the keys of this subscription are not those of a browser")
    name = name_of(endpoint)
    known = subscriptions(store)
    if name not in known and len(known) >= MAX_SUBSCRIPTIONS:
        raise UsageError(f"{MAX_SUBSCRIPTIONS} browsers have subscribed already; switch some of them off first")
    store.put_record("push", name, pack_record(made))
    return name


def unsubscribe(store: Store, name: str) -> None:
    """Forget a subscription, if it is there."""
    if name != _KEY_NAME:
        store.put_record("push", name, None)


def subscriptions(store: Store) -> dict[str, PushSubscription]:
    """All subscriptions by their name."""
    found = {name: unpack_record(one, PushSubscription) for name, one in store.list_records("push").items()}
    return {name: one for name, one in found.items() if one is not None and name != _KEY_NAME}


def name_of(endpoint: str) -> str:
    """The name of a subscription: a digest of its address, which is itself a secret."""
    return sha256(endpoint.encode()).hexdigest()[:32]


# -- one message -----------------------------------------------------------------------------------------------


def request_of(
    store: Store, to: PushSubscription, document: dict[str, Any], *, at: int, contact: str, urgent: bool
) -> tuple[str, dict[str, str], bytes]:
    """The POST of one message: address, headers, body."""
    private = _private(_key(store))
    parts = urlsplit(to.endpoint)
    claims = {"aud": f"{parts.scheme}://{parts.netloc}", "exp": at + _SIGNED_SECONDS, "sub": contact}
    headers = {
        "Authorization": f"vapid t={_signed(private, claims)}, k={encoded(_point(private))}",
        "Content-Encoding": "aes128gcm",
        "Content-Type": "application/octet-stream",
        "TTL": str(_KEEP_SECONDS),
        "Urgency": "high" if urgent else "normal",
        "User-Agent": "relight",
    }
    return to.endpoint, headers, encrypted(_fitting(document), to)


def _fitting(document: dict[str, Any]) -> bytes:
    """The document as JSON, its text cut so that it is not too long."""
    body = json.dumps(document, ensure_ascii=False).encode()
    while len(body) > MAX_PAYLOAD_BYTES and document["text"]:
        document = {**document, "text": document["text"][: len(document["text"]) // 2]}
        body = json.dumps(document, ensure_ascii=False).encode()
    return body


def encrypted(
    plain: bytes, to: PushSubscription, *, ephemeral: EllipticCurvePrivateKey | None = None, salt: bytes | None = None
) -> bytes:
    """The message for this browser alone (RFC 8291, in the form of RFC 8188). Key and salt are given by tests only."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    mine = ephemeral or ec.generate_private_key(ec.SECP256R1())
    salt = salt or os.urandom(16)
    theirs = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), to.public)
    shared = _hmac(to.secret, mine.exchange(ec.ECDH(), theirs))
    input_key = _hmac(shared, b"WebPush: info\0" + to.public + _point(mine) + b"\1")
    seed = _hmac(salt, input_key)
    key = _hmac(seed, b"Content-Encoding: aes128gcm\0\1")[:16]
    nonce = _hmac(seed, b"Content-Encoding: nonce\0\1")[:12]
    header = salt + _RECORD_BYTES.to_bytes(4, "big") + bytes([_POINT_BYTES]) + _point(mine)
    return header + AESGCM(key).encrypt(nonce, plain + b"\2", None)


def _signed(private: EllipticCurvePrivateKey, claims: dict[str, Any]) -> str:
    """A JSON Web Token of these claims, signed with ES256."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    parts = [encoded(json.dumps(one).encode()) for one in ({"typ": "JWT", "alg": "ES256"}, claims)]
    r, s = decode_dss_signature(private.sign(".".join(parts).encode(), ec.ECDSA(hashes.SHA256())))
    return ".".join([*parts, encoded(r.to_bytes(32, "big") + s.to_bytes(32, "big"))])


def _private(key: PushKey) -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.derive_private_key(int.from_bytes(key.private, "big"), ec.SECP256R1())


def _point(private: EllipticCurvePrivateKey) -> bytes:
    """Its public key as an uncompressed point."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _hmac(key: bytes, text: bytes) -> bytes:
    return hmac(key, text, sha256).digest()


def encoded(data: bytes) -> str:
    """Base64 for URLs, without padding."""
    return urlsafe_b64encode(data).decode().rstrip("=")


def decoded(text: str) -> bytes:
    """The bytes of such a text; UsageError if it is none."""
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise UsageError("not base64") from None
