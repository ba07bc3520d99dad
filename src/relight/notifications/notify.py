"""Notifications: a message to a person's address when a session needs them.

    sessions that need attention  ->  causes that were not sent yet  ->  POST  ->  recorded as sent

Each cause (a session, a kind, since when) is sent once to each address, by whichever process runs; what was sent is in
the store, so a restart sends nothing again. A process that dies between the POST and the record sends one cause twice.
An address is not stored, only a digest of it: the name of a topic is all that protects it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from hmac import new as hmac
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from relight.errors import UsageError
from relight.journal.queues.small_records import pack_record, unpack_record
from relight.library.facade import Relight
from relight.notifications import web_push
from relight.ports.store import Store
from relight.values.info import SessionInfo
from relight.values.queues import Told

NTFY_SERVER: Final = "https://ntfy.sh"
SECRET_VARIABLE: Final = "RELIGHT_NOTIFY_SECRET"
TOKEN_VARIABLE: Final = "RELIGHT_NTFY_TOKEN"
MAX_AT_ONCE: Final = 5
"""more new causes than this are sent as one message, so that a first start on an old store is no flood"""
_MAX_READ: Final = 200
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_URGENT: Final = frozenset({"waiting", "in_doubt", "corrupt"})
_MAX_TEXT: Final = 1000
_NO_CONTACT: Final = "mailto:relight@localhost"
"""whom a push service would write to about our messages, without --link"""


class Target(msgspec.Struct, frozen=True):
    """An address to notify."""

    kind: Literal["ntfy", "webhook", "push"]
    url: str
    """of push: where the service of one subscribed browser takes messages; empty: of each of them"""

    @property
    def digest(self) -> str:
        """What the store knows it by."""
        return sha256(f"{self.kind} {self.url}".encode()).hexdigest()[:32]


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """One message: about one session, or about several at once (`session` is None)."""

    title: str
    text: str
    kind: str
    session: str | None = None
    name: str | None = None
    since: datetime | None = None
    link: str | None = None
    """the page on which a person can act"""


class Notified(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one round."""

    sent: list[Notification]
    failed: list[str]
    """why an address could not be reached, one line each; it is tried again in the next round"""


def parse_target(text: str) -> Target:
    """`ntfy:TOPIC`, `ntfy:https://SERVER/TOPIC`, `push` for the subscribed browsers, or the address of a webhook.
    UsageError for anything else, and for an address that others could read on the way."""
    if text == "push":
        web_push.check_installed()
        return Target("push", "")
    kind: Literal["ntfy", "webhook"] = "ntfy" if text.startswith("ntfy:") else "webhook"
    url = text.removeprefix("ntfy:")
    if kind == "ntfy" and "/" not in url:
        url = f"{NTFY_SERVER}/{url}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or (kind == "ntfy" and len(parts.path) < 2):
        raise UsageError(
            "not an address", hints=["ntfy:TOPIC", "ntfy:https://SERVER/TOPIC", "push", "https://SERVER/PATH"]
        )
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise UsageError(f"{parts.hostname}: others could read what is sent; use https")
    return Target(kind, url)


def cause_of(info: SessionInfo) -> str:
    """The identity of a cause: the same session in the same trouble since the same moment."""
    assert info.attention is not None
    return f"{info.id} {info.attention.kind} {round(info.attention.since.timestamp() * 1e6)}"


def notifications(new: Sequence[SessionInfo], total: int, link: str | None) -> list[tuple[Notification, list[str]]]:
    """The messages about sessions with new causes, and the causes in them: one message each, or one for many."""
    if len(new) > MAX_AT_ONCE:
        names = ", ".join(one.title for one in new[:MAX_AT_ONCE])
        text = f"{names} and {len(new) - MAX_AT_ONCE} more; {total} in all"
        one = Notification(title=f"{len(new)} sessions need you", text=text, kind="several", link=link)
        return [(one, [cause_of(info) for info in new])]
    made = []
    for info in new:
        assert info.attention is not None
        one = Notification(
            title=f"{info.title}: {info.attention.kind.replace('_', ' ')}",
            text=info.attention.text[:_MAX_TEXT],
            kind=info.attention.kind,
            session=info.id,
            name=info.name,
            since=info.attention.since,
            link=f"{link.rstrip('/')}/sessions/{info.id}" if link else None,
        )
        made.append((one, [cause_of(info)]))
    return made


def request_of(
    target: Target, one: Notification, *, at: int, secret: str | None, token: str | None
) -> tuple[str, dict[str, str], bytes]:
    """The POST for a notification: address, headers, body."""
    headers = {"Content-Type": "application/json", "User-Agent": "relight"}
    if target.kind == "webhook":
        body = msgspec.json.encode(one)
        if secret is not None:
            signed = hmac(secret.encode(), f"{at}.".encode() + body, sha256).hexdigest()
            headers["Relight-Signature"] = f"t={at},v1={signed}"
        return target.url, headers, body
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    parts = urlsplit(target.url)
    path, _, topic = parts.path.rpartition("/")
    message: dict[str, Any] = {"topic": topic, "title": one.title, "message": one.text}
    message["priority"] = 4 if one.kind in _URGENT else 3
    if one.link is not None:
        message["click"] = one.link
    # As JSON to the server's root: a title in a header could hold only ASCII.
    return f"{parts.scheme}://{parts.netloc}{path}/", headers, msgspec.json.encode(message)


def notify(rl: Relight, targets: Sequence[str], *, link: str | None = None, test: bool = False) -> Notified:
    """Send each target the causes that it has not had yet; with `test`, send a test message instead. What was not sent
    is tried again by the next call."""
    sent, failed = list[Notification](), list[str]()
    addresses = [one for text in targets for one in _addresses(rl.store, parse_target(text), failed)]
    found = rl.sessions.needing(most=_MAX_READ)
    current = {cause_of(info): info for info in found.sessions}
    for target in addresses:
        before = _told(rl.store, target)
        # Causes that are over are forgotten, so the record stays as small as the list of what needs a person.
        told = before & current.keys()
        new = [info for cause, info in current.items() if cause not in told]
        trial = Notification(title="relight", text="notifications arrive here", kind="test", link=link)
        try:
            for one, causes in [(trial, [])] if test else notifications(new, found.total, link):
                _send(rl.store, target, one)
                sent.append(one)
                told |= set(causes)
        except OSError as error:
            failed.append(f"{urlsplit(target.url).hostname}: {error}")
            _forget(rl.store, target, error)
        finally:  # also after Ctrl-C: what was sent is not sent again
            if told != before and not test:
                rl.store.put_record("told", target.digest, pack_record(Told(causes=tuple(sorted(told)))))
    return Notified(sent=sent, failed=failed)


def _addresses(store: Store, target: Target, failed: list[str]) -> list[Target]:
    """The address, or for `push` those of all browsers that have subscribed."""
    if target.kind != "push":
        return [target]
    found = [Target("push", one.endpoint) for one in web_push.subscriptions(store).values()]
    if not found:
        failed.append('no browser has subscribed: open a page of `relight serve` there and press "notify me"')
    return found


def _forget(store: Store, target: Target, error: OSError) -> None:
    """Remove the subscription of a browser whose push service says that it is over."""
    if target.kind == "push" and getattr(error, "status", None) in (404, 410):
        web_push.unsubscribe(store, web_push.name_of(target.url))
        store.put_record("told", target.digest, None)


def _send(store: Store, target: Target, one: Notification) -> None:
    from relight.notifications.http_post import post  # loads the HTTP and TLS modules

    at = int(time.time())
    if target.kind == "push":
        to = web_push.subscriptions(store).get(web_push.name_of(target.url))
        if to is not None:  # else it was switched off just now
            contact = one.link if one.link is not None and one.link.startswith("https:") else _NO_CONTACT
            document = {
                "title": one.title,
                "text": one.text,
                "path": f"/sessions/{one.session}" if one.session else "/",
            }
            urgent = one.kind in _URGENT
            post(*web_push.request_of(store, to, document, at=at, contact=contact, urgent=urgent))
        return
    secret, token = (os.environ.get(name) or None for name in (SECRET_VARIABLE, TOKEN_VARIABLE))
    post(*request_of(target, one, at=at, secret=secret, token=token))


def _told(store: Store, target: Target) -> set[str]:
    record = store.list_records("told").get(target.digest)
    told = unpack_record(record, Told) if record is not None else None
    return set(told.causes) if told is not None else set()
