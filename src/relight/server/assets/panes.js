// The chosen step beside a session's history. A row is chosen by a click, by the arrow keys, or by `?at=@N`; the server
// renders the step, here it is only fetched and put in place. Without scripts the same links load the whole page.
"use strict";

(() => {
  const { $, $$, body, fragment, tick } = relight;
  const panes = $("#panes"), pane = $("#step"), rows = $("#rows");
  if (!panes || !pane || !rows) return;
  const SOON = 120;
  const narrow = matchMedia("(max-width: 999px)");
  const each = () => $$(".row[data-seq], .calls > li[data-seq]", rows).filter((row) => row.offsetParent !== null);
  const at = () => Number(new URL(location.href).searchParams.get("at")?.replace("@", "") ?? 0);
  const href = (seq) => {
    const url = new URL(location.href);
    seq ? url.searchParams.set("at", `@${seq}`) : url.searchParams.delete("at");
    return url.pathname + url.search.replace("%40", "@");
  };

  let asked = 0;
  async function show(seq) {
    const mine = ++asked;
    pane.classList.add("loading-step");
    try {
      const got = await fragment(`/sessions/${body.dataset.id}/step?seq=${seq}`);
      if (mine !== asked) return; // another step was chosen meanwhile
      const back = $(".back", pane), again = Number(pane.dataset.seq) === seq, focused = pane.contains(document.activeElement);
      if (again) { // the user reads it: what was opened stays open, and the scroll position is kept
        const opened = new Set($$("details[open] > summary", pane).map((one) => one.textContent));
        for (const fold of $$("details", got)) if (opened.has($("summary", fold)?.textContent)) fold.open = true;
      }
      const top = again ? pane.scrollTop : 0;
      pane.replaceChildren(back, got);
      pane.dataset.seq = seq;
      pane.scrollTop = top;
      if (focused && !pane.contains(document.activeElement)) pane.focus({ preventScroll: true });
      tick(pane);
      for (const fold of $$("details[data-soon]", pane)) fold.open = true;
    } catch { if (mine === asked) relight.toast("loading the step failed", { bad: true }); }
    finally { if (mine === asked) pane.classList.remove("loading-step"); }
  }

  function mark(seq) {
    for (const row of $$(".here", rows)) row.classList.remove("here");
    const all = each().filter((one) => !one.matches(".fold")), own = all.filter((one) => Number(one.dataset.seq) === seq);
    const row = own.at(-1) ?? all.findLast((one) => Number(one.dataset.seq) <= seq); // the result of a call is in the call's row
    row?.classList.add("here");
    return row;
  }

  function choose(seq, { push = false } = {}) {
    mark(seq);
    panes.dataset.chosen = "1";
    if (at() !== seq) history[push ? "pushState" : "replaceState"]({}, "", href(seq));
    if (narrow.matches) scrollTo({ top: 0 });
    return Number(pane.dataset.seq) === seq ? null : show(seq);
  }

  // -- clicks: on a row, on the links of a row, and on those from step to step --------------------------------------

  document.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    const link = event.target.closest("[data-step], .row .sq a, .row .sqa, [data-back]");
    const row = event.target.closest("#rows [data-seq]");
    if (link?.matches("[data-back]")) { event.preventDefault(); leave(); }
    else if (link?.dataset.step) { event.preventDefault(); choose(Number(link.dataset.step)); }
    else if (row && (link || !event.target.closest("a, button, summary, input")) && !getSelection().toString()) {
      event.preventDefault();
      row.focus({ preventScroll: true });
      choose(Number(row.dataset.seq), { push: narrow.matches });
    }
  });

  function leave() {
    delete panes.dataset.chosen;
    const seq = at();
    history.replaceState({}, "", href(0));
    const row = mark(seq);
    row?.scrollIntoView({ block: "center" });
    row?.focus({ preventScroll: true });
  }
  addEventListener("popstate", () => {
    const seq = at();
    if (seq) choose(seq); else { delete panes.dataset.chosen; mark(0); }
  });

  // -- keys: up and down choose, Enter goes into the step, Escape back to its row --------------------------------------

  let soon = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || $("dialog[open]")) return;
    if (event.target.closest?.("input, textarea, select, [contenteditable]")) return;
    const inside = pane.contains(event.target);
    if (event.key === "Escape" && inside) { event.preventDefault(); narrow.matches ? leave() : mark(at())?.focus(); return; }
    if (inside) return;
    const all = each(), current = all.find((one) => one === document.activeElement) ?? all.find((one) => one.matches(".here")) ?? all.find((one) => one.matches(".on"));
    if (event.key === "Enter" && current && !document.activeElement?.matches("a, button, summary")) {
      event.preventDefault();
      Promise.resolve(choose(Number(current.dataset.seq), { push: narrow.matches })).then(() => pane.focus());
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && (rows.contains(document.activeElement) || $(".here", rows))) {
      event.preventDefault();
      const index = all.indexOf(current), next = all[Math.min(all.length - 1, Math.max(0, index + (event.key === "ArrowDown" ? 1 : -1)))];
      if (!next) return;
      next.tabIndex = -1;
      next.focus({ preventScroll: true });
      next.scrollIntoView({ block: "nearest" });
      mark(Number(next.dataset.seq));
      clearTimeout(soon); // a held key reads the step at which it stops, not each on the way
      if (!narrow.matches) soon = setTimeout(() => choose(Number(next.dataset.seq)), SOON);
    }
  });

  // -- the time axis: all bars have one scale, which grows with a live session; a person may show a part of it ------------

  let zoom = null;
  function scale() {
    const low = Number(rows.dataset.low), high = Number(rows.dataset.high), [begin, end] = zoom ?? [low, high];
    const box = `${begin} 0 ${Math.max(end - begin, 0.001)} 10`;
    for (const bar of $$("svg.tl", rows)) if (bar.getAttribute("viewBox") !== box) bar.setAttribute("viewBox", box);
    for (const open of $$("rect.open", rows)) open.setAttribute("width", Math.max(0, high - Number(open.getAttribute("x"))));
    for (const one of $$("#axis [data-x]")) {
      const share = `${(100 * (Number(one.dataset.x) - begin)) / Math.max(end - begin, 0.001)}%`;
      for (const name of one.matches("line") ? ["x1", "x2"] : ["x"]) one.setAttribute(name, share);
    }
  }
  relight.grow = (list) => { // other rows: with them come the axis of all that the page has, or the edges of a part
    if (!list.dataset.high) return;
    const caption = list.nextElementSibling, ticks = $("#axis") ? caption?.nextElementSibling : null;
    if (!rows.dataset.zoomed) {
      rows.dataset.low = ticks ? list.dataset.low : Math.min(Number(rows.dataset.low), Number(list.dataset.low));
      rows.dataset.high = Math.max(Number(rows.dataset.high), Number(list.dataset.high));
      if (ticks) {
        $("#axis > .dim").textContent = caption.textContent;
        $("#axis .ticks").setAttribute("aria-label", ticks.getAttribute("aria-label"));
        $("#axis .ticks").replaceChildren(...ticks.childNodes);
      }
    }
    scale();
    const open = $("[data-pending]", pane); // the call that one reads may have ended
    const chosen = getSelection().toString() && pane.contains(getSelection().anchorNode); // not under who copies from it
    if (open && !chosen && open.dataset.pending !== list.dataset.upto) { open.dataset.pending = list.dataset.upto; show(Number(pane.dataset.seq)); }
  };
  $("#axis")?.addEventListener("click", (event) => {
    const by = event.target.closest("[data-zoom]")?.dataset.zoom;
    if (by === undefined || rows.dataset.zoomed) return; // what the address zooms is zoomed by the server
    event.preventDefault();
    const low = Number(rows.dataset.low), high = Number(rows.dataset.high), [begin, end] = zoom ?? [low, high];
    const chosen = $(".here svg.tl rect", rows), middle = chosen ? Number(chosen.getAttribute("x")) : (begin + end) / 2;
    const half = ((end - begin) * Number(by)) / 2;
    zoom = by === "0" || 2 * half >= high - low ? null : [middle - half, middle + half];
    scale();
  });
  const ticks = $("#axis .ticks");
  let from = null;
  const across = (event) => {
    const { left, width } = ticks.getBoundingClientRect(), [begin, end] = zoom ?? [Number(rows.dataset.low), Number(rows.dataset.high)];
    return begin + ((event.clientX - left) / width) * (end - begin);
  };
  ticks?.addEventListener("pointerdown", (event) => { from = across(event); ticks.setPointerCapture(event.pointerId); });
  ticks?.addEventListener("pointerup", (event) => {
    const to = across(event), part = [Math.min(from, to), Math.max(from, to)];
    if (part[1] - part[0] > (Number(rows.dataset.high) - Number(rows.dataset.low)) / 1000) { zoom = part; scale(); }
  });
})();
