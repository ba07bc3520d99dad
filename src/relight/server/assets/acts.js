// Regions that are brought up to date while they are looked at (`data-refresh` names the fragment that replaces them), and
// the choice of rows and the kept views of the list.
"use strict";

(() => {
  const { $, $$, body, fragment, idOf, morph, remembered, tick } = relight;
  const EVERY = 5000;

  async function refresh() {
    if (document.hidden) return;
    for (const region of $$("[data-refresh]")) {
      try {
        const got = await fragment(region.dataset.refresh);
        const fresh = got.getElementById(region.id);
        if (!fresh) continue;
        tick(fresh);
        morph(region, fresh);
      } catch { /* the bar of live.js says that the server does not answer */ }
    }
  }
  setInterval(refresh, EVERY);

  // -- rows with boxes: the choice is kept by id, so that live updates of the rows do not lose it ----------------------

  const bar = $("#picked"), picked = new Set();
  function choose() {
    for (const box of $$("[data-pick]")) { const on = picked.has(idOf(box.closest("tr"))); if (box.checked !== on) box.checked = on; }
    const all = $("[data-pick-all]", bar).checked;
    bar.hidden = !picked.size && !all;
    $("[data-number]", bar).textContent = all ? "all chosen" : `${picked.size} chosen`;
    const filters = (body.dataset.list ?? "/").split("?")[1] ?? "";
    for (const link of $$("[data-several]", bar)) link.href = `/do/several/${link.dataset.several}?${all ? filters : `ids=${[...picked].join(",")}`}`;
  }
  if (bar) {
    document.addEventListener("change", ({ target }) => {
      if (target.matches("[data-pick]")) picked[target.checked ? "add" : "delete"](idOf(target.closest("tr")));
      else if (!target.matches("[data-pick-all]")) return;
      choose();
    });
    $("[data-unpick]", bar).addEventListener("click", () => { picked.clear(); $("[data-pick-all]", bar).checked = false; choose(); $("[data-pick]")?.focus(); });
    new MutationObserver(() => { if (picked.size) choose(); }).observe($("#list") ?? bar, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-seq"] });
  }

  // -- views: names for filters, kept in this browser alone -------------------------------------------------------------

  const views = $("#views");
  const kept = () => { try { return JSON.parse(remembered.get("views", "{}")); } catch { return {}; } };
  function listViews() {
    const rows = Object.entries(kept()).map(([name, query]) => {
      const row = document.createElement("li"), link = document.createElement("a"), drop = document.createElement("button");
      link.textContent = name;
      link.href = `/?${query}`;
      drop.type = "button";
      drop.className = "small";
      drop.textContent = "×";
      drop.setAttribute("aria-label", `forget the view ${name}`);
      drop.addEventListener("click", (event) => { event.stopPropagation(); const all = kept(); delete all[name]; remembered.set("views", JSON.stringify(all)); listViews(); });
      row.append(link, " ", drop);
      return row;
    });
    $("[data-views]", views).replaceChildren(...rows);
  }
  if (views) {
    listViews();
    $("[data-save-view]", views).addEventListener("submit", (event) => {
      event.preventDefault();
      const field = $("input", event.target), query = new URLSearchParams(location.search);
      query.delete("before");
      remembered.set("views", JSON.stringify({ ...kept(), [field.value.trim().slice(0, 60)]: query.toString() }));
      field.value = "";
      listViews();
    });
  }
})();
