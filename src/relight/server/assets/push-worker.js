// Shows a message of `relight notify push`; a tap opens the session's page. It keeps nothing and answers no request.
"use strict";

self.addEventListener("push", (event) => {
  let message = {};
  try { message = event.data.json(); } catch { /* not ours: it still has to show something */ }
  const path = typeof message.path === "string" && message.path.startsWith("/") ? message.path : "/";
  const title = String(message.title || "relight"), body = String(message.text || "");
  event.waitUntil(self.registration.showNotification(title, { body, tag: path, icon: "/assets/icon.svg", data: { path } }));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const to = new URL(event.notification.data.path, self.location.origin);
  event.waitUntil((async () => {
    const open = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
    const there = open.find((one) => one.url === to.href);
    return there ? there.focus() : self.clients.openWindow(to.origin === self.location.origin ? to.href : "/");
  })());
});
