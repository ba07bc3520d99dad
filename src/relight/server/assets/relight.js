// What every page does by itself: theme, times, copying, keys, peeks, and bodies that come when they are looked at.
// No framework, no evaluation; text goes into the page as text. Markup comes from our own server only.
"use strict";

const relight = (() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const body = document.body;
  const idOf = (one) => one.dataset.id ?? one.id.slice("r-".length); // of a session: its row, or what names it

  const remembered = {
    get(key, otherwise = null) {
      try { return localStorage.getItem(`relight.${key}`) ?? otherwise; } catch { return otherwise; }
    },
    set(key, value) {
      try { localStorage.setItem(`relight.${key}`, value); } catch { /* forbidden: it is forgotten */ }
    },
  };

  // -- fragments of our own server -------------------------------------------------------------------------------

  async function fragment(address) {
    const answer = await fetch(address, { headers: { Accept: "text/html", "X-Relight-Part": "1" }, credentials: "same-origin" });
    if (!answer.ok) throw new Error(`${answer.status}`);
    const holder = document.createElement("template");
    holder.innerHTML = await answer.text();
    return holder.content;
  }

  // Puts a new version of an element in place of the old one, keeping focus, what was typed, and what is open.
  function morph(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    if (globalThis.htmx?.swap) {
      const holder = document.createElement("div");
      holder.append(fresh.cloneNode(true));
      globalThis.htmx.swap({ target: old, text: holder.innerHTML, swap: "outerMorph" });
    } else if (!old.contains(document.activeElement)) old.replaceWith(fresh);
  }

  // -- times ------------------------------------------------------------------------------------------------------

  const two = (number) => String(number).padStart(2, "0");

  function age(seconds) {
    if (seconds < 1) return `${Math.max(0, seconds).toFixed(1)}s`;
    for (const [bound, unit, size] of [[100, "s", 1], [3600, "m", 60], [172800, "h", 3600]])
      if (seconds < bound) return `${Math.round(seconds / size)}${unit}`;
    return `${Math.round(seconds / 86400)}d`;
  }

  function clock(at, utc, long) {
    const [y, mo, d, h, m, s] = utc
      ? [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate(), at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds()]
      : [at.getFullYear(), at.getMonth(), at.getDate(), at.getHours(), at.getMinutes(), at.getSeconds()];
    const day = `${y}-${two(mo + 1)}-${two(d)}`, time = `${two(h)}:${two(m)}:${two(s)}`;
    return long ? `${day} ${time}${utc ? " UTC" : ""}` : time;
  }

  function tick(root = document) {
    const utc = remembered.get("zone", "local") === "utc", now = Date.now();
    for (const element of $$("time[datetime]", root)) {
      const at = new Date(element.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      let text = "ago" in element.dataset ? age((now - at) / 1000) : clock(at, utc, now - at > 72e6);
      if (element.closest(".row") && text.startsWith(`${new Date(now).getFullYear()}-`)) text = text.slice(5); // its column is narrow; the title has the year
      if (element.textContent !== text) element.textContent = text;
      element.title = clock(at, utc, true);
    }
  }

  // -- saying ------------------------------------------------------------------------------------------------------

  let lastSaid = 0, pending = null;
  function say(text) { // at most one change in ten seconds; never steps, never timers
    pending = text;
    const wait = Math.max(0, lastSaid + 10000 - Date.now());
    setTimeout(() => {
      if (pending === null || Date.now() < lastSaid + 10000) return;
      $("#say").textContent = pending;
      lastSaid = Date.now();
      pending = null;
    }, wait);
  }

  function toast(text, { bad = false, actions = [] } = {}) {
    const box = document.createElement("div");
    box.className = bad ? "toast bad" : "toast";
    const words = document.createElement("p");
    words.textContent = text;
    box.append(words);
    for (const [label, act] of actions) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "small";
      button.textContent = label;
      button.addEventListener("click", () => { box.remove(); act(); });
      box.append(button);
    }
    const close = document.createElement("button");
    close.type = "button";
    close.className = "small";
    close.textContent = "×";
    close.setAttribute("aria-label", "dismiss");
    close.addEventListener("click", () => box.remove());
    box.append(close);
    $("#toasts").append(box);
    return box;
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch { // an address without TLS that is not loopback
      const field = document.createElement("textarea");
      field.value = text;
      body.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
    const box = toast(`copied: ${text.length > 80 ? `${text.slice(0, 80)}…` : text}`);
    setTimeout(() => box.remove(), 2500);
  }

  // -- settings of this browser ------------------------------------------------------------------------------------

  function settings() {
    const theme = $("#theme"), zone = $("#zone");
    if (!theme) return;
    theme.value = remembered.get("theme", "auto");
    theme.addEventListener("change", () => {
      remembered.set("theme", theme.value);
      if (theme.value === "auto") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = theme.value;
      document.dispatchEvent(new CustomEvent("relight:theme"));
    });
    zone.value = remembered.get("zone", "local");
    zone.addEventListener("change", () => { remembered.set("zone", zone.value); tick(); document.dispatchEvent(new CustomEvent("relight:theme")); });
    document.addEventListener("change", ({ target }) => { if (target.matches("#filters select, .tools form select")) target.form.requestSubmit(); });
  }

  // -- seen: kept in this browser alone ------------------------------------------------------------------------------

  function seenOf(id) { return Number(remembered.get(`seen.${id}`, "-1")); }
  function see(id, seq) { if (Number(seq) > seenOf(id)) remembered.set(`seen.${id}`, seq); }
  const ENDED = new Set(["completed", "failed", "terminated", "halted"]);
  if (remembered.get("first") === null) remembered.set("first", String(Date.now()));
  const first = Number(remembered.get("first", String(Date.now()))); // what ended before the first visit is not news
  function markUnseen(root = document) {
    for (const row of $$("tr.s", root)) {
      const unseen = ENDED.has(row.dataset.status) && seenOf(idOf(row)) < Number(row.dataset.seq) && Number(row.dataset.at) > first;
      $(".name a", row)?.classList.toggle("unseen", unseen);
    }
  }

  // -- peek ----------------------------------------------------------------------------------------------------------

  async function peek(row) {
    const button = $(".chev", row);
    const open = row.nextElementSibling;
    if (open?.classList.contains("peek")) {
      open.remove();
      button?.setAttribute("aria-expanded", "false");
      return;
    }
    const line = document.createElement("tr"), cell = document.createElement("td");
    line.className = "peek";
    cell.colSpan = 9;
    cell.textContent = "loading";
    line.append(cell);
    row.after(line);
    button?.setAttribute("aria-expanded", "true");
    try {
      cell.replaceChildren(await fragment(`/sessions/${idOf(row)}/peek`));
      tick(cell);
    } catch { cell.textContent = "loading failed"; }
  }

  // -- bodies that come when they are looked at --------------------------------------------------------------------

  async function load(element) {
    const address = element.dataset.src;
    if (!address || element.dataset.from === address) return;
    element.dataset.from = address;
    const slow = setTimeout(() => element.classList.add("htmx-request"), 400);
    try {
      const got = await fragment(address);
      element.classList.remove("loading");
      element.replaceChildren(got);
      tick(element);
      document.dispatchEvent(new CustomEvent("relight:loaded", { detail: element }));
    } catch { element.textContent = "loading failed; reload the page to try again"; }
    finally { clearTimeout(slow); element.classList.remove("htmx-request"); delete element.dataset.src; }
  }

  // What was loaded, once more; nothing moves while it comes.
  async function reload(selector) {
    for (const element of $$(selector)) {
      const got = await fragment(element.dataset.from);
      if (element.contains(document.activeElement) || getSelection().toString() && element.contains(getSelection().anchorNode)) continue; // in use: the next time
      for (const [index, fold] of $$("details", element).entries()) $$("details", got)[index]?.toggleAttribute("open", fold.open);
      element.replaceChildren(got);
      tick(element);
      document.dispatchEvent(new CustomEvent("relight:loaded", { detail: element }));
    }
  }

  function lookers() {
    const soon = new IntersectionObserver((seen) => {
      for (const one of seen) if (one.isIntersecting) {
        soon.unobserve(one.target);
        if (one.target.matches("details[data-soon]")) one.target.open = true;
        else spark(one.target);
      }
    }, { rootMargin: "200px" });
    for (const one of $$("details[data-soon], [data-spark]")) soon.observe(one);
    for (const one of $$("[data-now]")) load(one);
    document.addEventListener("toggle", (event) => {
      const details = event.target;
      if (!(details instanceof HTMLDetailsElement) || !details.open) return;
      if (details.dataset.src) { // a fold whose body is elsewhere
        const element = document.createElement("div");
        element.dataset.src = details.dataset.src;
        delete details.dataset.src;
        $(".loading", details)?.replaceWith(element);
        load(element);
      }
      for (const element of $$(":scope > [data-src]", details)) load(element);
    }, true);
  }

  async function spark(element) {
    try { element.replaceChildren(await fragment(element.dataset.spark)); } catch { /* a picture less */ }
  }

  // -- differences, split ---------------------------------------------------------------------------------------------

  function textOf(block) { return $$(".l", block).map((line) => line.textContent).join("\n"); }
  let view = "unified";
  function show(block) {
    const source = block.relightText ??= textOf(block);
    block.relightPlain ??= [...block.childNodes];
    if (view === "split" && globalThis.Diff2Html) {
      const whole = `--- a/file\n+++ b/file\n${source}\n`;
      const holder = document.createElement("div");
      holder.innerHTML = globalThis.Diff2Html.html(whole, { drawFileList: false, outputFormat: "side-by-side", matching: "none" });
      block.replaceChildren(holder);
    } else block.replaceChildren(...block.relightPlain);
  }
  function differences() {
    for (const box of $$("[data-white]")) box.addEventListener("change", () => body.classList.toggle("nowhite", box.checked));
    for (const link of $$("[data-view]")) link.addEventListener("click", (event) => {
      event.preventDefault();
      view = link.dataset.view;
      for (const one of $$("[data-view]")) one.toggleAttribute("aria-current", one === link);
      for (const block of $$("[data-diff]")) show(block);
    });
    document.addEventListener("relight:loaded", (event) => { if (view === "split") for (const block of $$("[data-diff]", event.detail)) show(block); });
  }

  // -- plots -----------------------------------------------------------------------------------------------------------

  const dollars = (cost) => `$${cost > 0 && cost < 0.01 ? cost.toPrecision(2) : cost.toFixed(2)}`;
  function burn(element) {
    if (!globalThis.uPlot || !element.isConnected) return;
    const data = JSON.parse(element.dataset.burn);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const utc = remembered.get("zone", "local") === "utc";
    const lines = [[data.times, data.costs]];
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line-soft"), width: 1 }, ticks: { stroke: colour("--line-soft") }, font: "11px system-ui" };
    const series = [{ value: (_, at) => at === null ? "-" : clock(new Date(at * 1000), utc, true) },
      { label: "cost", stroke: colour("--ref"), width: 2, paths: globalThis.uPlot.paths.stepped({ align: 1 }), points: { show: false }, value: (_, cost) => cost === null ? "-" : dollars(cost) },
      { label: "tokens", show: true, scale: "tokens", stroke: "transparent", points: { show: false }, value: (_, n) => n === null ? "-" : n.toLocaleString("en") }];
    element.replaceChildren();
    new globalThis.uPlot({
      width: Math.max(260, element.clientWidth), height: 120, padding: [8, 8, 0, 0], series,
      tzDate: utc ? (at) => globalThis.uPlot.tzDate(new Date(at * 1000), "Etc/UTC") : undefined,
      cursor: { y: false }, legend: { live: true },
      axes: [{ ...axis, values: (_, ticks) => ticks.map((at) => clock(new Date(at * 1000), utc, false).slice(0, ticks.at(-1) - ticks[0] < 600 ? 8 : 5)).map((text, nth, all) => text === all[nth - 1] ? "" : text) }, { ...axis, size: (_, labels) => Math.max(56, 16 + 7 * Math.max(0, ...(labels ?? []).map((text) => text.length))), values: (_, ticks) => ticks.map(dollars) }],
      hooks: { draw: [(plot) => {
        const pen = plot.ctx, { top, height, left, width } = plot.bbox;
        pen.save();
        pen.strokeStyle = colour("--warn");
        pen.setLineDash([3, 3]);
        for (const at of data.attempts) {
          const x = plot.valToPos(at, "x", true);
          pen.beginPath(); pen.moveTo(x, top); pen.lineTo(x, top + height); pen.stroke();
        }
        if (data.budget !== null) {
          const y = plot.valToPos(data.budget, "y", true);
          if (y >= top) { pen.strokeStyle = colour("--bad"); pen.beginPath(); pen.moveTo(left, y); pen.lineTo(left + width, y); pen.stroke(); }
        }
        pen.restore();
      }] },
    }, [...lines[0], data.tokens], element);
  }
  function plots() {
    const all = () => { for (const element of $$("[data-burn]")) burn(element); };
    document.addEventListener("relight:loaded", (event) => { for (const element of $$("[data-burn]", event.detail)) burn(element); });
    document.addEventListener("relight:theme", all);
    let waiting = 0;
    addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(all, 200); });
    all();
    const fold = $("#plots");
    if (fold?.dataset.src && matchMedia("(min-width: 721px)").matches) fold.open = true; // on a phone: on request
  }

  // -- clicks -----------------------------------------------------------------------------------------------------------

  function clicks() {
    document.addEventListener("click", (event) => {
      const target = event.target.closest("[data-copy], [data-copy-from], [data-close], .chev");
      if (target?.dataset.copy !== undefined) copy(target.dataset.copy);
      else if (target?.dataset.copyFrom) copy($(`#${target.dataset.copyFrom}`).textContent);
      else if (target?.matches("[data-close]")) target.closest("dialog")?.close();
      else if (target?.matches(".chev")) peek(target.closest("tr"));
      else {
        const row = event.target.closest("tr.s");
        if (row && !event.target.closest("a, button, input, label, summary") && !getSelection().toString()) location.href = `/sessions/${idOf(row)}`;
      }
    });
    document.addEventListener("click", (event) => { for (const more of $$("details.more[open]")) if (!more.contains(event.target)) more.open = false; });
  }

  return { $, $$, body, idOf, remembered, fragment, morph, tick, say, toast, copy, settings, see, seenOf, markUnseen, peek, load, reload, lookers, differences, plots, clicks, age };
})();

document.documentElement.classList.add("ready");
relight.settings();
relight.clicks();
relight.lookers();
relight.differences();
relight.plots();
relight.tick();
relight.markUnseen();
setInterval(relight.tick, 10000);
