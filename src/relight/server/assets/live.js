// Live updates and keys. One EventSource a tab, closed while the tab is hidden; the stream says that something is new,
// and the server's own fragments say what. Rows are replaced by their id and never move.
"use strict";

(() => {
  const { $, $$, body, remembered, fragment, morph, tick, say, see, markUnseen, peek, load, copy } = relight;
  const page = body.dataset.page, dot = $("#live");
  const PAINT = page === "sessions" ? 1000 : 250, POLL = 30000, FALLBACK = 5000, LOOK = 2000, NEAR = 48;

  function state(name, text = name) {
    dot.dataset.state = name;
    dot.lastElementChild.textContent = text;
  }

  // -- painting: at most four times a second, one at a time, and never what nobody looks at -------------------------

  let wanted = false, painting = false, last = 0, failed = 0;
  let whole = !body.dataset.events; // the list: events were missed, so all rows are read again
  const again = () => { whole = true; paint(); };
  function paint() {
    if (document.hidden) return; // whoever comes back opens the stream anew, and that paints
    wanted = true;
    if (painting) return;
    painting = true;
    setTimeout(async () => {
      while (wanted && !document.hidden) {
        wanted = false;
        last = Date.now();
        try {
          await (page === "session" ? session() : page === "sessions" ? sessions() : strip());
          if (failed) { failed = 0; $("#gone").hidden = true; body.classList.remove("stale"); enable(true); }
        } catch (error) { gone(error); }
        const rest = last + PAINT - Date.now();
        if (wanted && rest > 0) await new Promise((go) => setTimeout(go, rest));
      }
      wanted = painting = false;
    }, Math.max(0, last + PAINT - Date.now()));
  }

  function gone(error) {
    if (String(error.message) === "401") { location.reload(); return; }
    const since = new Date();
    whole = true; // what the stream named meanwhile was not read
    if (!failed++) {
      const bar = $("#gone");
      bar.hidden = false;
      bar.firstElementChild.textContent = `Store does not answer since ${since.toTimeString().slice(0, 8)}; showing what was read then; retrying every 5 s`;
      enable(false);
    }
    setTimeout(paint, FALLBACK);
  }

  function enable(on) {
    body.toggleAttribute("data-store-gone", !on);
    for (const link of $$("[data-dialog]")) link.toggleAttribute("inert", !on);
  }

  let known = null, stripDigest = "";
  async function strip(content = null) {
    const got = content ?? await fragment("/strip");
    const fresh = got.querySelector("#strip");
    stripDigest = got.querySelector("meta[name=strip]")?.content ?? stripDigest;
    transitions(got);
    if (!fresh) return; // it has not changed
    const before = Number($("#strip").dataset.needs), now = Number(fresh.dataset.needs);
    badge(now);
    if (before !== now) say(now ? `${now} need you` : "nothing needs you");
    morph($("#strip"), fresh);
  }

  function badge(needs) {
    const title = document.title.replace(/^\(\d+\) /, "");
    document.title = needs ? `(${needs}) ${title}` : title;
    const icon = needs ? "/assets/icon-needs.svg" : "/assets/icon.svg";
    if (!$("#icon").href.endsWith(icon)) $("#icon").href = icon;
  }

  // -- one notification a transition, grouped ------------------------------------------------------------------------

  const TELL = new Set(["waiting", "failed", "completed"]);
  let notes = [];
  function transitions(root) {
    const now = new Map($$("[data-status][data-id]", root).map((one) => [one.dataset.id, [one.dataset.status, one.dataset.ref]]));
    if (!now.size) return;
    if (known) for (const [id, [status, name]] of now) {
      const before = known.get(id)?.[0];
      if (before && before !== status) {
        say(`${name} is ${status}`);
        if (TELL.has(status)) notify(id, name, status);
      }
    }
    known = new Map([...(known ?? []), ...now]);
  }
  function notify(id, name, status) {
    if (remembered.get("notify") !== "on" || !("Notification" in globalThis) || Notification.permission !== "granted") return;
    notes = notes.filter((at) => Date.now() - at < 10000);
    notes.push(Date.now());
    const many = notes.length > 3;
    const note = new Notification("relight", { body: many ? `${notes.length} sessions changed` : `${name} is ${status}`, tag: many ? "relight" : id });
    note.onclick = () => { focus(); location.href = many ? "/" : `/sessions/${id}`; };
  }

  // -- the list ---------------------------------------------------------------------------------------------------------

  const changed = new Map(), unlisted = new Set(); // ids that the stream named since the last paint; new ones not shown
  function partOfList() {
    const at = `${body.dataset.list}${body.dataset.list.includes("?") ? "&" : "?"}`;
    const all = whole;
    whole = false;
    const ids = [...changed.keys()].filter((id) => document.getElementById(`r-${id}`));
    const fresh = [...changed.values()].filter((one) => !ids.includes(one.id) && one.created_at >= body.dataset.newest).map((one) => one.id);
    changed.clear();
    return at + (all ? "part=list" : `part=rows&ids=${ids.slice(0, 100)}&new=${fresh.slice(0, 100)}&strip=${stripDigest}`);
  }

  async function sessions() {
    const got = await fragment(partOfList());
    strip(got);
    const fresh = $$("tr.s", got);
    if (!$("#list tbody")) { if (fresh.length) location.reload(); return; }
    markUnseen(got);
    tick(got);
    for (const row of fresh) {
      const mine = document.getElementById(row.id);
      if (!mine) { unlisted.add(row.id); continue; }
      const open = $(".chev", mine)?.getAttribute("aria-expanded") === "true";
      if (open) $(".chev", row).setAttribute("aria-expanded", "true");
      row.classList.toggle("on", mine.classList.contains("on"));
      const drawn = $("[data-spark]", mine)?.cloneNode(true), old = $("[data-spark]", row);
      if (drawn?.firstElementChild && old) old.replaceWith(drawn);
      morph(mine, row);
    }
    const bar = $("#newer");
    if (bar && !new URLSearchParams(location.search).has("before")) {
      bar.hidden = !unlisted.size;
      bar.textContent = `${unlisted.size} new ${unlisted.size === 1 ? "session" : "sessions"} - show`;
    }
  }
  $("#newer")?.addEventListener("click", () => location.reload());

  // -- a session: header, then the steps after the last one shown; by seq, so without gap or duplicate -------------------

  const rows = $("#rows");
  let follow = body.dataset.follow === "1", unread = 0;
  const nearEnd = () => document.documentElement.scrollHeight - innerHeight - scrollY <= NEAR;

  async function session() {
    const at = rows && !$("[data-more='later']") ? Number(rows.dataset.upto) : null;
    const address = `/sessions/${body.dataset.id}/news?after=${at ?? body.dataset.seq}`;
    const got = await fragment(rows ? address + `&${rows.dataset.src.split("?")[1]}` : address);
    if (document.hidden) return;
    strip(got);
    const head = got.querySelector("#head");
    const mine = $("#head");
    if (head && mine) {
      if (mine.dataset.status !== head.dataset.status) say(`${head.dataset.ref} is ${head.dataset.status}`);
      tick(head);
      const more = $("details.more", mine);
      if (more?.open) $("details.more", head).open = true;
      if (!mine.contains(document.activeElement) || globalThis.htmx) morph(mine, head);
      body.dataset.seq = head.dataset.seq;
      if (!document.hidden) see(body.dataset.id, head.dataset.seq);
    }
    if (at === null) return;
    const news = got.querySelector("ol");
    if (!news || Number(news.dataset.upto) < at) return;
    const skipped = Number(news.dataset.skipped ?? 0);
    const stay = follow && nearEnd() && !document.hidden;
    let added = 0;
    tick(news);
    for (const row of [...news.children]) {
      const old = document.getElementById(row.id);
      if (old) { // an open call has ended, a turn has got a tool
        for (const kept of ["on", "new", "here", "earlier"]) row.classList.toggle(kept, old.classList.contains(kept));
        morph(old, row);
        continue;
      }
      if (Number(row.dataset.seq) <= at) continue;
      row.classList.add("new");
      rows.append(row);
      added++;
    }
    rows.dataset.upto = news.dataset.upto;
    if (skipped) { relight.toast(`${skipped} steps while the tab slept`); location.reload(); return; }
    if (!added) return;
    if (stay) { scrollTo({ top: document.documentElement.scrollHeight }); unread = 0; }
    else unread += Number(news.dataset.upto) - at;
    pill();
  }

  function pill() {
    const button = $("#pill");
    if (!button) return;
    button.hidden = !unread;
    button.textContent = `${unread} new ${unread === 1 ? "step" : "steps"} ↓`;
    const said = $("#following b");
    if (said) said.textContent = follow ? "on" : "off";
  }
  $("#pill")?.addEventListener("click", () => { unread = 0; follow = true; pill(); scrollTo({ top: document.documentElement.scrollHeight }); });
  addEventListener("scroll", () => { if (unread && nearEnd()) { unread = 0; pill(); } }, { passive: true });

  // -- a phone shows the last rows, and the others when asked for -------------------------------------------------------

  function unfold() {
    const height = document.documentElement.scrollHeight;
    for (const row of $$(".row.earlier", rows)) row.classList.remove("earlier");
    $("#unfold")?.remove();
    scrollBy({ top: document.documentElement.scrollHeight - height });
  }
  $("#unfold button")?.addEventListener("click", unfold);

  // -- earlier and later: 200 more, keeping the place -------------------------------------------------------------------

  document.addEventListener("click", async (event) => {
    const link = event.target.closest("[data-more]");
    if (!link || !rows || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const earlier = link.dataset.more === "earlier";
    if (earlier) unfold();
    link.classList.add("htmx-request");
    const edge = earlier ? `upto=${rows.dataset.after}` : `after=${rows.dataset.upto}`;
    try {
      const got = await fragment(`${rows.dataset.src}&${edge}`);
      const part = got.querySelector("ol");
      tick(part);
      const height = document.documentElement.scrollHeight;
      for (const row of $$(".row", part)) if (document.getElementById(row.id)) row.remove();
      if (earlier) {
        rows.prepend(...part.children);
        rows.dataset.after = part.dataset.after;
        scrollBy({ top: document.documentElement.scrollHeight - height });
        if (Number(part.dataset.after) <= 0) link.closest("p").remove();
      } else {
        rows.append(...part.children);
        rows.dataset.upto = part.dataset.upto;
        if (Number(part.dataset.upto) >= Number(part.dataset.newest)) link.closest("p").remove();
      }
    } catch { relight.toast("loading failed", { bad: true }); }
    finally { link.classList.remove("htmx-request"); }
  });

  // -- the one stream -----------------------------------------------------------------------------------------------------

  let stream = null, poll = null, tries = 0;
  const address = page === "session" ? `/api/sessions/${body.dataset.id}/events` : "/api/events";

  function open() {
    clearInterval(poll);
    poll = null;
    if (stream || !page || page === "checkpoint") return;
    // The general stream goes on where the page was rendered or closed it, so nothing is fetched twice.
    const from = page === "session" ? `?after=${body.dataset.seq}` : `?brief=true${body.dataset.events ? `&after=${body.dataset.events}` : ""}`;
    stream = new EventSource(address + from);
    stream.onopen = () => { tries = 0; state("live"); if (page !== "sessions" || whole || failed) paint(); };
    for (const kind of ["step", "session", "counts", "reload", "message"]) stream.addEventListener(kind, (event) => {
      if (event.lastEventId && page !== "session") body.dataset.events = event.lastEventId;
      if (kind === "session") { const one = JSON.parse(event.data); changed.set(one.id, one); }
      whole ||= kind === "reload";
      paint();
    });
    stream.addEventListener("over", () => { close(); again(); state("off", "ended"); poll = setInterval(again, POLL); });
    stream.onerror = () => {
      if (stream?.readyState === EventSource.CLOSED) { // refused: too many streams, or no longer let in
        close();
        state("off", "polling");
        poll = setInterval(again, FALLBACK);
      } else state("reconnecting", `reconnecting (${++tries})`);
    };
  }
  function close() { stream?.close(); stream = null; }

  async function glance() { // while hidden: one small question, for the title
    try {
      const answer = await fetch("/api/attention", { credentials: "same-origin" });
      if (answer.ok) badge((await answer.json()).total ?? 0);
    } catch { /* the next one may do */ }
  }

  function visible() {
    if (document.hidden) {
      close();
      state("paused");
      clearInterval(poll);
      poll = setInterval(glance, POLL);
    } else open();
  }
  setInterval(() => { // a death writes no step: while somebody should be at work, look whether somebody is
    if (stream && page === "session" && $("#head")?.dataset.live === "1" && Date.now() - last >= LOOK) paint();
  }, LOOK);
  document.addEventListener("visibilitychange", visible);
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => { if (event.persisted) visible(); });
  relight.visible = visible;
  relight.paint = paint;

  // -- keys: none changes anything by itself --------------------------------------------------------------------------------

  const keysOn = () => remembered.get("keys", "on") === "on";
  const list = () => page === "sessions" ? $$("tr.s") : $$("#rows > .row");
  function step(by, filter = () => true) {
    const all = list().filter(filter);
    if (!all.length) return;
    const here = all.findIndex((row) => row.classList.contains("on"));
    const current = list().find((row) => row.classList.contains("on"));
    let index = here >= 0 ? here + by : 0;
    if (here < 0 && current) { // from a row that is no problem to the next that is one
      const order = current.compareDocumentPosition.bind(current);
      const after = all.findIndex((row) => order(row) & Node.DOCUMENT_POSITION_FOLLOWING);
      index = by > 0 ? (after < 0 ? all.length - 1 : after) : (after < 0 ? all.length - 1 : after - 1);
    }
    const row = all[Math.min(all.length - 1, Math.max(0, index))];
    if (row.matches(".earlier")) unfold();
    for (const one of list()) one.classList.toggle("on", one === row);
    row.scrollIntoView({ block: "nearest" });
    (page === "sessions" ? $(".name a", row) : row).focus({ preventScroll: true });
  }
  const current = () => list().find((row) => row.classList.contains("on"));
  const click = (selector) => { const found = $(selector); if (found) found.click(); return Boolean(found); };
  const command = () => page === "sessions" ? `relight list` : page === "operations" ? "relight doctor" : `relight show ${body.dataset.ref}`;

  const keys = {
    "/": () => ($("#search").focus(), $("#search").select()),
    j: () => step(1), k: () => step(-1),
    n: () => step(1, (row) => row.matches(".problem")), p: () => step(-1, (row) => row.matches(".problem")),
    " ": () => { const row = current(); if (page !== "sessions" || !row) return false; peek(row); },
    Enter: () => { const row = current(); if (!row || document.activeElement?.matches("a, button, summary")) return false; location.href = row.dataset.id ? `/sessions/${row.dataset.id}` : $(".sq a", row)?.href ?? location.href; },
    f: () => { follow = !follow; pill(); },
    d: () => click(".tabs a[href$='tab=files']"),
    r: () => click("[data-verb='resume']"), b: () => click("[data-verb='rewind']"),
    y: () => copy(command()),
    "[": () => { const to = body.dataset.previous ?? labelled(-1); if (to) location.href = to; },
    "]": () => { const to = body.dataset.next ?? labelled(1); if (to) location.href = to; },
    "?": () => $("#keys").showModal(),
    Escape: () => { const menu = $("details.more[open]"); if (menu) { menu.open = false; $("summary", menu).focus(); } else if (page !== "sessions" && page) history.length > 1 ? history.back() : location.assign("/"); },
  };
  function labelled(by) {
    const row = current() ?? (by > 0 ? list()[0] : list().at(-1));
    return row && $(".sq a", row)?.getAttribute("href");
  }
  for (let tab = 1; tab <= 6; tab++) keys[tab] = () => click(`.tabs a[data-tab='${tab}']`);

  let going = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if ($("dialog[open]")) return;
    const field = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (field) { if (event.key === "Escape") field.blur(); return; }
    if (!keysOn() && event.key !== "Escape") return;
    if (going && Date.now() - going < 1200 && "so".includes(event.key)) { going = 0; location.href = event.key === "s" ? "/" : "/operations"; return; }
    if (event.key === "g") { going = Date.now(); return; }
    if (event.key === " " && document.activeElement?.matches("button, summary, a.chev")) return;
    const act = keys[event.key];
    if (act && act() !== false) event.preventDefault();
  });
  const onOff = $("#keys-on");
  if (onOff) {
    onOff.checked = keysOn();
    onOff.addEventListener("change", () => remembered.set("keys", onOff.checked ? "on" : "off"));
    $("#keys-button").addEventListener("click", () => $("#keys").showModal());
  }
  $("#next-problem")?.addEventListener("click", () => step(1, (row) => row.matches(".problem")));

  // -- notifications: off until asked ------------------------------------------------------------------------------------------

  const bell = $("#notify");
  if (bell) {
    if (!("Notification" in globalThis)) bell.hidden = true;
    const shown = () => { const on = remembered.get("notify") === "on"; bell.setAttribute("aria-pressed", String(on)); bell.textContent = on ? "notifying" : "notify me"; };
    bell.addEventListener("click", async () => {
      const on = remembered.get("notify") !== "on" && (await Notification.requestPermission()) === "granted";
      remembered.set("notify", on ? "on" : "off");
      shown();
    });
    shown();
  }

  // -- arriving --------------------------------------------------------------------------------------------------------------------

  async function arrive() {
    transitions(document);
    badge(Number($("#strip").dataset.needs));
    if (page === "session") {
      see(body.dataset.id, body.dataset.seq);
      const here = $(".row.here");
      if (here) here.scrollIntoView({ block: "center" });
      else if (rows && body.dataset.follow === "1" && rows.children.length > 12 && !location.hash) scrollTo({ top: document.documentElement.scrollHeight });
      pill();
    }
    if (page === "sessions") {
      const visited = Number(remembered.get("visited", "0")), away = Date.now() - visited;
      const digest = $("#digest");
      if (digest && visited && away > 30 * 60e3) {
        digest.dataset.src += `?since=${Math.floor(visited / 1000)}`;
        await load(digest);
        $("#digest-away")?.addEventListener("click", () => digest.replaceChildren());
      }
      remembered.set("visited", String(Date.now()));
    }
  }
  arrive();
  if (page) visible(); else state("off");
})();
