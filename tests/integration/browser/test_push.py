"""A browser that was asked to notify subscribes, reads what `relight notify push` sends, and is a tap from the page."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from relight.notifications import web_push
from relight.notifications.notify import notify
from tests.integration.browser.conftest import Site
from tests.support.shell import eventually
from tests.unit.server.test_push import Browser as PushService
from tests.unit.server.test_push import ask

SUBSCRIBE = """
given => {
  PushManager.prototype.subscribe = async function (options) {
    if (!options.userVisibleOnly || !options.applicationServerKey) throw new Error("not as a browser wants it");
    return { toJSON: () => given, unsubscribe: async () => true };
  };
}
"""
"""stands for the vendor's push service, which cannot be reached"""


@pytest.fixture
def service() -> Iterator[PushService]:
    one = PushService()
    yield one
    one.server.shutdown()
    one.server.server_close()


def test_notify_me_subscribes_and_a_message_is_shown_and_leads_to_its_session(site: Site, service: PushService) -> None:
    context = site.context()
    context.grant_permissions(["notifications"], origin=site.address("/").rstrip("/"))
    page = site.page("/", context=context)
    page.evaluate(SUBSCRIBE, service.subscription())
    page.locator("#notify").click()
    expect(page.locator("#notify")).to_have_text("notifying")
    expect(page.locator("#notify")).to_have_attribute(
        "title", "also when no page is open, if `relight notify push` runs"
    )
    ask(site.rl, "shop", "push to main?")
    assert len(notify(site.rl, ["push"]).sent) == 1
    message = service.read(service.got[0][1])

    protocol = context.new_cdp_session(page)
    registered: list[str] = []
    protocol.on(
        "ServiceWorker.workerRegistrationUpdated",
        lambda event: registered.extend(one["registrationId"] for one in event["registrations"]),
    )
    protocol.send("ServiceWorker.enable")
    eventually(lambda: bool(page.title()) and registered, what="the service worker")
    origin = site.address("/").rstrip("/")
    given = {"origin": origin, "registrationId": registered[0], "data": json.dumps(message)}
    protocol.send("ServiceWorker.deliverPushMessage", given)
    shown = (
        "async () => (await (await navigator.serviceWorker.ready).getNotifications()).map(n => [n.title, n.data.path])"
    )
    expected = ["shop: waiting", f"/sessions/{site.rl.sessions.get('shop').id}"]
    eventually(lambda: expected in page.evaluate(shown), what="the notification")

    protocol.detach()
    page.locator("#notify").click()
    expect(page.locator("#notify")).to_have_text("notify me")
    eventually(lambda: not web_push.subscriptions(site.rl.store), what="the subscription being forgotten")
