// Live updates and keys. One EventSource a tab, closed while the tab is hidden; the stream says that something is new,
// and the server's own fragments say what. Rows are replaced by their id and never move.
"use strict";

(() => {
  const { $, $$, body, remembered, fragment, morph, tick, say, see, markUnseen, peek, load, copy, idOf } = relight;
  const page = body.dataset.page, dot = $("#live");
  const PAINT = page === "sessions" ? 1000 : 250, POLL = 30000, AGAIN = 2000, LOOK = 2000, GLANCE = 5000, SLOW = 3000, NEAR = 48, KEPT = 1000, SETTLE = 40;

  function state(name, text = name) {
    dot.dataset.state = name;
    dot.lastElementChild.textContent = text;
  }

  // -- painting: at most four times a second, one at a time, and never while the page is hidden ----------------------

  let wanted = false, painting = false, last = 0, failed = 0, retry = null;
  let whole = !body.dataset.events; // the list: events were missed, so all rows are read again
  const again = () => { whole = true; paint(); };
  const painters = { session, sessions, operations };
  let reading = Promise.resolve(); // one after the other: an answer that is late must not undo a later one
  const read = () => (reading = reading.catch(() => {}).then(painters[page] ?? (() => strip())));
  function paint() {
    if (document.hidden) return; // a page that is shown again reopens the stream, and that paints
    wanted = true;
    if (painting) return;
    painting = true;
    setTimeout(async () => {
      while (wanted && !document.hidden) {
        wanted = false;
        last = Date.now();
        try {
          await read();
          answered();
        } catch (error) { gone(error); }
        const rest = last + PAINT - Date.now();
        if (wanted && rest > 0) await new Promise((go) => setTimeout(go, rest));
      }
      wanted = painting = false;
    }, Math.max(0, last + PAINT - Date.now()));
  }

  // What does not answer is named: this browser's network, the server, or its store. What was read stays.
  let since = null;
  function gone(error) {
    if (String(error.message) === "401") { location.reload(); return; }
    whole = true; // what the stream named meanwhile was not read
    since ??= new Date();
    const status = Number(error.message), told = Number.isNaN(status), removed = status === 404 || status === 410;
    const who = !navigator.onLine ? "This browser is offline" : told ? "The server does not answer" : status === 503 ? "The store does not answer" : removed ? "This is no longer there" : `The server answers with an error (${status})`;
    const bar = $("#gone");
    bar.hidden = false;
    bar.firstElementChild.textContent = `${who} since ${since.toTimeString().slice(0, 8)}. The page shows what was read before; it tries again every ${AGAIN / 1000} s.`;
    if (!failed++) enable(false);
    state("gone", !navigator.onLine ? "offline" : removed ? "removed" : "no answer");
    clearTimeout(retry);
    retry = setTimeout(paint, AGAIN);
  }
  function answered() {
    if (!failed) return;
    failed = 0;
    since = null;
    clearTimeout(retry);
    $("#gone").hidden = true;
    enable(true);
    if (stream?.readyState === EventSource.OPEN) state("live");
    else if (!page || page === "checkpoint") still();
    else if (!document.hidden) { close(); open(); }
  }

  function enable(on) {
    body.toggleAttribute("data-store-gone", !on);
    for (const link of $$("[data-dialog]")) link.toggleAttribute("inert", !on);
  }

  let known = null, stripDigest = "", stripAt = Date.now();
  async function strip(content = null) {
    const got = content ?? await fragment(`/strip?strip=${stripDigest}${page === "session" ? `&of=${body.dataset.id}` : ""}`);
    const naming = got.querySelector("meta[name=naming]")?.content;
    if (naming && naming !== $("#head").dataset.naming) paint();
    stripAt = Date.now();
    const fresh = got.querySelector("#strip");
    stripDigest = got.querySelector("meta[name=strip]")?.content ?? stripDigest;
    transitions(got);
    if (!fresh) return false; // it has not changed
    const before = Number($("#strip").dataset.needs), now = Number(fresh.dataset.needs);
    badge(now);
    if (before !== now) say(now ? `${now} need you` : "nothing needs you");
    const pause = $(".top [href='/do/pause']");
    if (pause) pause.textContent = $("[role=status]", fresh) ? "End the pause…" : "Pause all…";
    morph($("#strip"), fresh);
    if (fresh.dataset.counts) counted(JSON.parse(fresh.dataset.counts));
    return true;
  }
  // What needs a person is news on every page: also where the stream is of one session, or there is none, and after what
  // writes no step, as an acknowledgement or a pause.
  setInterval(() => {
    if (document.hidden || failed || Date.now() - stripAt < GLANCE) return;
    reading = reading.catch(() => {}).then(() => strip());
    reading.then((news) => { if (news && page === "operations") paint(); }, gone);
  }, GLANCE / 2);

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
    const now = new Map($$("[data-status][data-ref]", root).map((one) => [idOf(one), [one.dataset.status, one.dataset.ref]]));
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
    return [at + (all ? "part=list" : `part=rows&ids=${ids.slice(0, 100)}&new=${fresh.slice(0, 100)}&strip=${stripDigest}`), all, ids];
  }
  const askFor = (row) => changed.set(idOf(row), { id: idOf(row) });

  // The number of sessions in each status; where there are fewer than before, some of those shown may be removed.
  function counted(counts) {
    const shown = $("[data-total]"), total = Object.values(counts).reduce((sum, one) => sum + one, 0);
    if (!shown) return;
    if (total < Number(shown.dataset.total)) { $$("tr.s").forEach(askFor); paint(); }
    shown.dataset.total = total;
    shown.textContent = `${total.toLocaleString("en")} ${total === 1 ? "session" : "sessions"}`;
    for (const one of $$("#filters [name=status] option")) if (one.value) one.textContent = `${one.value} (${one.value.split(",").reduce((sum, status) => sum + (counts[status] ?? 0), 0).toLocaleString("en")})`;
  }

  async function sessions() {
    const [address, all, ids] = partOfList(), got = await fragment(address);
    strip(got);
    const fresh = $$("tr.s", got), there = new Set(fresh.map((row) => row.id));
    if (!$("#list tbody")) { if (fresh.length) await reloadParts("#filters", "#list"); return; }
    for (const row of $$("tr.s")) {
      if (there.has(row.id)) continue;
      if (all) askFor(row); // it is on another page by now, or removed
      else if (ids.includes(idOf(row))) { $(`#${row.id} + .peek`)?.remove(); row.remove(); }
    }
    if (all && changed.size) paint();
    if (!$("tr.s")) await reloadParts("#filters", "#list");
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

  // Rows get their height when they come near the screen, so the end moves while one goes there: until it does not, or
  // the user scrolls. A scroll position on the way to the end is as good as there, however long a busy machine takes for it.
  let moves = 0, toTheEnd = -1;
  function settle(move) {
    const mine = ++moves;
    let left = SETTLE, still = 0, height = 0;
    const next = () => {
      if (mine !== moves) return;
      if (!left-- || still > 4) { moves++; return; }
      move();
      still = document.documentElement.scrollHeight === height ? still + 1 : 0;
      height = document.documentElement.scrollHeight;
      requestAnimationFrame(next);
    };
    next();
  }
  for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) addEventListener(kind, () => { moves++; }, { passive: true });
  const toEnd = () => { toTheEnd = moves + 1; settle(() => scrollTo({ top: document.documentElement.scrollHeight })); };

  async function session() {
    const at = rows && !$("[data-more='later']") ? Number(rows.dataset.upto) : null;
    const address = `/sessions/${body.dataset.id}/news?after=${at ?? body.dataset.seq}`;
    const got = await fragment(at === null ? address : `${address}&from=${rows.dataset.after}&${rows.dataset.src.split("?")[1]}`);
    if (document.hidden) return;
    strip(got);
    const head = got.querySelector("#head");
    const mine = $("#head");
    if (head && mine) {
      if (mine.dataset.ref !== head.dataset.ref) renamed(head);
      if (mine.dataset.status !== head.dataset.status) say(`${head.dataset.ref} is ${head.dataset.status}`);
      tick(head);
      const more = $("details.more", mine);
      if (more?.open) $("details.more", head).open = true;
      const moved = body.dataset.seq !== head.dataset.seq || mine.dataset.status !== head.dataset.status;
      if (!mine.contains(document.activeElement) || globalThis.htmx) morph(mine, head);
      body.dataset.seq = head.dataset.seq;
      if (!document.hidden) see(body.dataset.id, head.dataset.seq);
      parts(moved, head.dataset.live === "1" || ofOthers);
    }
    for (const one of got.querySelectorAll(".tabs a")) { // a fork, or a call in doubt
      const mine = $(`.tabs a[data-tab="${one.dataset.tab}"]`);
      if (mine && mine.textContent !== one.textContent) mine.textContent = one.textContent;
    }
    const news = at === null ? null : got.querySelector("ol[data-upto]");
    if (!news || Number(news.dataset.upto) < at) return;
    const skipped = Number(news.dataset.skipped ?? 0);
    if (skipped) { relight.toast(`${skipped} steps while the tab slept`); location.reload(); return; }
    const stay = follow && (toTheEnd === moves || nearEnd());
    tick(news);
    const added = merge(rows, news);
    problems();
    rows.dataset.upto = news.dataset.upto;
    if (stay) trim();
    relight.grow?.(news);
    const range = $("#range");
    if (range) range.textContent = `@${Number(rows.dataset.after) + 1} to @${news.dataset.upto} of ${Number(news.dataset.upto).toLocaleString("en")}`;
    if (!added) return;
    if (stay) { toEnd(); unread = 0; }
    else unread += Number(news.dataset.upto) - at;
    pill();
  }

  // What stands above the rows is of those that are there.
  function problems() {
    const button = $("#next-problem"), number = $$(".row.problem:not(.fold)", rows).length;
    if (rows.firstElementChild) $("#none")?.remove();
    if (!button) return;
    button.hidden = !number;
    button.lastElementChild.textContent = `(${number})`;
  }

  function renamed(head) {
    body.dataset.ref = head.dataset.ref;
    document.title = `${document.title.match(/^\(\d+\) /) ?? ""}${$("h1", head).textContent} · relight`;
  }

  // While the end is followed the page holds a bounded number of rows; those before come back with "earlier".
  function trim() {
    const over = rows.children.length - KEPT;
    if (over < KEPT / 5) return; // in pieces: a removal costs a layout
    const cut = Number(rows.children[over].dataset.seq);
    for (const row of [...rows.children]) if (Number(row.dataset.seq) <= cut) row.remove();
    rows.dataset.after = cut;
    if ($("[data-more='earlier']")) return;
    const line = document.createElement("p"), link = document.createElement("a");
    line.className = "tail";
    link.className = "button";
    link.dataset.more = "earlier";
    link.href = `?upto=${cut}`;
    link.textContent = "‹ earlier steps";
    line.append(link);
    rows.before(line);
  }

  // Makes the rows after `data-after` what the server says they are: each once, in its order. Those before it stay.
  function merge(list, news) {
    const from = Number(news.dataset.after), fresh = [...news.children], ids = new Set(fresh.map((row) => row.id));
    let place = null, added = 0;
    for (const row of [...list.children]) {
      if (Number(row.dataset.seq) <= from) place = row;
      else if (!row.matches(".fold") && !ids.has(row.id)) row.remove(); // a call that has its reply now, and is shown there
    }
    for (const row of fresh) {
      const old = document.getElementById(row.id), mine = old?.parentElement === list ? old : null, fold = old?.closest("#rows > .fold");
      if (fold) { morph(old, row); place = fold; continue; } // attempts alike: its rows are brought up to date in it
      if (mine) for (const kept of ["on", "new", "here", "earlier"]) row.classList.toggle(kept, mine.classList.contains(kept));
      if (mine) morph(mine, row);
      if (Number(row.dataset.seq) <= from) continue; // a call that began before, and ended now
      const now = mine ? document.getElementById(row.id) : row;
      if (!mine) { now.classList.add("new"); added++; }
      if (!mine || now.previousElementSibling !== place) place ? place.after(now) : list.prepend(now);
      place = now;
    }
    return added;
  }

  // -- what is beside the rows: the other tabs and the plots, reloaded when something happened, not more often than they can

  const ofOthers = body.dataset.tab === "forks"; // what happens to children and forks is no step of this session
  let partsAt = 0, partsDue = false, partsRead = null;
  function parts(moved, live) {
    partsDue ||= moved || (live && Date.now() - partsAt > 5 * SLOW); // time passes in the plots too
    if (!partsDue || partsRead) return;
    partsRead = setTimeout(async () => {
      partsDue = false;
      try {
        await Promise.all([rows ? $("#hidden") && reloadParts("#hidden", "#none") : reloadParts("#tab"), relight.reload("#plots [data-from]")]);
      } catch { /* the next paint says that nothing answers */ }
      partsAt = Date.now();
      partsRead = null;
    }, Math.max(0, partsAt + SLOW - Date.now()));
  }

  // Reads this page again and puts a part of it in place; what was loaded on demand, typed or opened in it stays.
  async function reloadParts(...selectors) {
    const got = await fragment(location.href);
    for (const selector of selectors) {
      const mine = $(selector), fresh = got.querySelector(selector);
      if (!mine || !fresh || getSelection().toString() && mine.contains(getSelection().anchorNode)) continue;
      tick(fresh);
      for (const one of $$("[data-src]", fresh)) {
        const loaded = $$("[data-from]", mine).find((other) => other.dataset.from === one.dataset.src);
        if (loaded) one.replaceWith(loaded.cloneNode(true));
      }
      morph(mine, fresh);
    }
    return got;
  }

  let operationsAt = 0;
  async function operations() {
    if (Date.now() - operationsAt < SLOW) { await strip(); setTimeout(paint, SLOW); return; }
    operationsAt = Date.now();
    strip(await reloadParts("#main"));
  }

  function pill() {
    const button = $("#pill");
    if (!button) return;
    button.hidden = !unread;
    button.textContent = `${unread} new ${unread === 1 ? "step" : "steps"} ↓`;
    const said = $("#following b");
    if (said) said.textContent = follow ? "on" : "off";
  }
  $("#pill")?.addEventListener("click", () => { unread = 0; follow = true; pill(); toEnd(); });
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
      if (earlier) {
        for (const row of [...rows.children]) if (Number(row.dataset.seq) <= Number(rows.dataset.after)) row.remove(); // in their place now
        rows.prepend(...part.children);
        rows.dataset.after = part.dataset.after;
        scrollBy({ top: document.documentElement.scrollHeight - height });
        if (Number(part.dataset.after) <= 0) link.closest("p").remove();
      } else {
        for (const row of [...part.children]) {
          const old = document.getElementById(row.id);
          if (old?.parentElement === rows) morph(old, row);
          else if (Number(row.dataset.seq) > Number(rows.dataset.upto)) rows.append(row);
        }
        rows.dataset.upto = part.dataset.upto;
        if (Number(part.dataset.upto) >= Number(part.dataset.newest)) link.closest("p").remove();
      }
      problems();
      relight.grow?.(part);
      relight.read(); // the axis of all of them
    } catch { relight.toast("loading failed", { bad: true }); }
    finally { link.classList.remove("htmx-request"); }
  });

  // -- the one stream -----------------------------------------------------------------------------------------------------

  const still = () => state("off", "not live");
  let stream = null, poll = null, tries = 0, refused = 0, ended = 0, reopening = null;
  const address = page === "session" ? `/api/sessions/${body.dataset.id}/events` : "/api/events";

  function open() {
    clearInterval(poll);
    clearTimeout(reopening);
    poll = null;
    if (stream || !page || page === "checkpoint") return;
    // The general stream continues where the page was rendered or closed it, so nothing is fetched twice.
    const from = page === "session" ? `?after=${body.dataset.seq}` : `?brief=true${body.dataset.events ? `&after=${body.dataset.events}` : ""}`;
    const mine = stream = new EventSource(address + from);
    mine.onopen = () => { tries = refused = 0; if (!failed) state("live"); if (!body.dataset.events || whole || failed) paint(); };
    for (const kind of ["step", "session", "counts", "reload", "message"]) mine.addEventListener(kind, (event) => {
      if (event.lastEventId && page !== "session") body.dataset.events = event.lastEventId;
      if (kind === "session") { const one = JSON.parse(event.data); changed.set(one.id, one); }
      whole ||= kind === "reload";
      ended = 0;
      paint();
    });
    mine.addEventListener("over", (event) => { // removed, or damaged; asked again, because what was damaged may be repaired
      close();
      again();
      state("off", `not live: ${JSON.parse(event.data).why}`);
      reopening = setTimeout(open, Math.min(POLL, AGAIN * 2 ** ended++));
    });
    mine.onerror = () => {
      if (stream !== mine) return;
      tries++;
      if (!failed) state("reconnecting", `reconnecting (${tries})`);
      if (mine.readyState !== EventSource.CLOSED) return; // it tries again by itself
      close(); // refused: too many streams, or a server that is not ready; what is shown is polled meanwhile
      if (!failed) state("off", "polling");
      again();
      reopening = setTimeout(open, Math.min(POLL, AGAIN * ++refused)); // not by how long nothing was reached
    };
  }
  function close() { stream?.close(); stream = null; }
  addEventListener("offline", () => gone(new TypeError("offline")));
  addEventListener("online", paint);

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
  setInterval(() => { // a death writes no step: while a process should be working, check that one is
    if (stream && page === "session" && Date.now() - last >= ($("#head")?.dataset.live === "1" ? LOOK : ofOthers ? 5 * SLOW : Infinity)) paint();
  }, LOOK);
  document.addEventListener("visibilitychange", visible);
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => {
    $("#filters")?.reset(); // what the address says, not what was chosen before one went back
    if (event.persisted) visible();
  });
  relight.visible = visible;
  relight.paint = paint;
  relight.read = read; // one paint, at once

  // -- keys: none changes anything by itself --------------------------------------------------------------------------------

  const isProblem = (row) => row.matches(".problem, [data-attention]");
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
  const command = () => body.dataset.command ?? (page === "sessions" ? `relight list` : page === "operations" ? "relight doctor" : `relight show ${body.dataset.ref}`);

  const keys = {
    "/": () => ($("#search").focus(), $("#search").select()),
    j: () => step(1), k: () => step(-1),
    n: () => step(1, isProblem), p: () => step(-1, isProblem),
    " ": () => { const row = current(); if (page !== "sessions" || !row) return false; peek(row); },
    Enter: () => { const row = current(); if (!row || document.activeElement?.matches("a, button, summary")) return false; location.href = row.matches("tr") ? `/sessions/${idOf(row)}` : $(".sq a", row)?.href ?? location.href; },
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
    if (going && event.timeStamp - going < 1200 && "so".includes(event.key)) { going = 0; location.href = event.key === "s" ? "/" : "/operations"; return; }
    if (event.key === "g") { going = event.timeStamp; return; } // when it was pressed, not when a busy page comes to it
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
  $("#next-problem")?.addEventListener("click", () => step(1, isProblem));

  // -- arriving --------------------------------------------------------------------------------------------------------------------

  async function arrive() {
    transitions(document);
    badge(Number($("#strip").dataset.needs));
    if (page === "session") {
      see(body.dataset.id, body.dataset.seq);
      const here = $("#rows .here");
      // A running session is followed at its end; one that is over is read from its head, which says how it ended.
      if (here) settle(() => here.scrollIntoView({ block: "center" }));
      else if (rows && follow && $("#head").dataset.live === "1" && !location.hash) toEnd();
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
  if (page) visible(); else still();
})();
