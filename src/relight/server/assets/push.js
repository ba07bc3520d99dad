// "notify me": messages of this browser, off until asked. While a page is open it tells by itself (live.js); with a push
// subscription `relight notify push` reaches the browser when no page is open. Needs https, or this machine.
"use strict";

(() => {
  const { $, remembered } = relight;
  const bell = $("#notify");
  if (!bell) return;
  if (!("Notification" in globalThis)) { bell.hidden = true; return; }

  const shown = () => {
    const on = remembered.get("notify") === "on";
    bell.setAttribute("aria-pressed", String(on));
    bell.textContent = on ? "notifying" : "notify me";
    bell.title = !on ? "" : remembered.get("push") ? "also when no page is open, if `relight notify push` runs" : "while a page is open";
  };

  async function call(method, path, value) {
    const headers = { "Content-Type": "application/json", Accept: "application/json", "Idempotency-Key": crypto.randomUUID() };
    const answer = await fetch(path, { method, headers, body: value && JSON.stringify(value), credentials: "same-origin" });
    if (!answer.ok) throw new Error(`${answer.status}`);
    return answer.json();
  }

  async function subscribe() {
    const worker = await navigator.serviceWorker.register("/push-worker.js");
    await navigator.serviceWorker.ready;
    const { public_key } = await call("POST", "/api/push/key", {});
    const made = await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: public_key });
    remembered.set("push", (await call("POST", "/api/push", made.toJSON())).name);
  }

  async function unsubscribe() {
    const name = remembered.get("push");
    remembered.set("push", "");
    const worker = await navigator.serviceWorker.getRegistration();
    await (await worker?.pushManager.getSubscription())?.unsubscribe();
    if (name) await call("DELETE", `/api/push/${name}`);
  }

  bell.addEventListener("click", async () => {
    const on = remembered.get("notify") !== "on" && (await Notification.requestPermission()) === "granted";
    remembered.set("notify", on ? "on" : "off");
    try {
      // Where it cannot subscribe (no push service, no cryptography on the server) open pages still tell.
      if ("serviceWorker" in navigator && "PushManager" in globalThis) await (on ? subscribe() : unsubscribe());
    } catch (error) { console.warn("no web push:", error); }
    shown();
  });
  shown();
})();
