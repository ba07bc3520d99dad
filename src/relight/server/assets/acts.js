// Regions that are brought up to date while they are looked at: `data-refresh` names the fragment that replaces them.
"use strict";

(() => {
  const { $$, fragment, morph, tick } = relight;
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
})();
