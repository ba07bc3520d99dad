// Dialogs: what would happen is read from the server, the focus starts on Cancel, and only the confirm button acts. What
// it does is one call of the API, with the hash of the plan that was shown and a key, so that a double click is one act.
"use strict";

(() => {
  const { $, $$, body, fragment, toast, tick } = relight;
  const dialog = $("#dialog");
  let opener = null, key = "", leaving = false;
  const home = $("#home")?.getAttribute("href"); // of a page that is nothing but a dialog

  async function open(address, from) {
    opener = from ?? opener;
    let got;
    try { got = await fragment(address); } catch (error) {
      toast(error.message === "409" || error.message === "404" ? "no longer there: reload the page" : "loading failed", { bad: true });
      return;
    }
    key = (crypto.randomUUID?.() ?? String(Math.random()).slice(2)) + Date.now().toString(36);
    dialog.replaceChildren(got);
    tick(dialog);
    if (!dialog.open) dialog.showModal();
    ready();
    $("[data-cancel]", dialog)?.focus({ preventScroll: true }); // a long one is read from its beginning
    dialog.scrollTop = 0;
  }

  dialog?.addEventListener("close", () => {
    if (dialog.open) return; // the event comes late, and the next one is there already
    dialog.replaceChildren();
    if (home && !leaving) { location.href = home; return; }
    if (opener?.isConnected) opener.focus();
    else $("#main a, #main button")?.focus();
    opener = null;
  });

  // Enter in a field must not do anything; the button must be meant.
  dialog?.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches("input")) event.preventDefault();
  });

  function ready() {
    const form = $("form[data-action]", dialog), confirm = $("[data-confirm]", dialog);
    if (!form || !confirm || confirm.disabled) return;
    const label = confirm.textContent, command = $(".cmd code", form).textContent;
    const check = () => {
      const scope = $("input[name=scope]:checked", form)?.value;
      for (const one of $$("[data-when]", form)) one.hidden = !scope || !one.dataset.when.split(" ").includes(scope);
      for (const one of $$("[data-unless]", form)) one.hidden = Boolean($(`input[name="${one.dataset.unless}"]:checked`, form));
      const groups = new Map();
      for (const one of asked(form, "input[type=radio][required]")) groups.set(one.name, groups.get(one.name) || one.checked);
      const boxes = $$("[data-needed]", form);
      const typed = $("input[data-typed]", form);
      const fields = asked(form, "textarea[required], input[type=text][required]");
      confirm.disabled = Boolean([...groups.values()].includes(false) || (boxes.length && !boxes.some((one) => one.checked))
        || (typed && typed.value !== form.dataset.typed) || fields.some((one) => !one.value.trim()));
      if (form.dataset.plain) { // the box that starts it afterwards is named on the button, and in the command
        const goes = $("input[name=resume]", form).checked;
        confirm.textContent = goes ? label : form.dataset.plain;
        written(form, goes ? command : command.replace(/ && relight resume .*$/, ""));
      }
      if (form.dataset.path === "/api/label") {
        const { key: name = "KEY", value = "VALUE", unset } = sent(form);
        written(form, command.replace("--add KEY=VALUE", () => unset ? `--remove ${quoted(name)}` : `--add ${quoted(`${name}=${value}`)}`));
      }
      if (scope && form.dataset.path.endsWith("/rewind")) { // the button and the command say what was chosen
        const { choice, take = [] } = sent(form);
        confirm.textContent = `${label} ${scope}`;
        const files = scope === "conversation" ? "" : `${choice ? ` --${choice}` : ""}${take.map((path) => ` --take ${quoted(path)}`).join("")}`;
        written(form, `${command.replace(/ --\S+$/, "")} --${scope}${files}`);
      }
    };
    form.addEventListener("input", check);
    form.addEventListener("change", check);
    check();
  }

  const quoted = (text) => /^[\w@%+=:,.\/-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
  function written(form, command) {
    const code = $(".cmd code", form), button = $(".cmd [data-copy]", form);
    code.textContent = command;
    if (button) button.dataset.copy = command;
  }

  // What is asked for by what was chosen so far; the rest is hidden, and neither needed nor sent.
  const asked = (form, which) => $$(which, form).filter((one) => !one.closest("[data-when][hidden], [data-unless][hidden]"));

  // What is no number is sent as it is typed, and refused: it must not become none.
  const number = (text) => Number.isFinite(Number(text)) ? Number(text) : text;

  function sent(form) {
    const value = JSON.parse(form.dataset.body || "{}");
    for (const field of asked(form, "textarea[name], input[type=text][name]")) if (field.value.trim()) value[field.name] = "number" in field.dataset ? number(field.value) : field.value;
    for (const field of asked(form, "input[type=radio]:checked")) value[field.name] = field.value;
    for (const field of $$("input[data-flag]:checked", form)) value[field.name] = true;
    const boxes = asked(form, "[data-list]");
    if (boxes.length) {
      value[boxes[0].name] = boxes.filter((one) => one.checked).map((one) => one.value);
      if (boxes.some((one) => one.checked && "risky" in one.dataset)) value.choice = "force";
    }
    return value;
  }

  async function call(method, path, value, plan, once) {
    const headers = { "Content-Type": "application/json", Accept: "application/json", "Idempotency-Key": once };
    if (plan) headers["If-Match"] = `"${plan}"`;
    const answer = await fetch(path, { method, headers, body: method === "DELETE" ? undefined : JSON.stringify(value), credentials: "same-origin" });
    const text = await answer.text();
    let document = {};
    try { document = JSON.parse(text); } catch { /* no JSON: the status says it */ }
    return { ok: answer.ok, status: answer.status, document };
  }

  // Many sessions are sent in groups, each under a key of its own: pressed again after a lost answer, what was done is
  // answered as before, and the rest is done.
  const GROUP = 100;
  async function inGroups(form, value, key) {
    const all = value.sessions, send = (body, once) => call(form.dataset.method, form.dataset.path, body, form.dataset.plan, once);
    if (!all || all.length <= GROUP) return send(all && value.plans ? { ...value, plans: only(value.plans, all) } : value, key);
    const sum = { items: [], done: 0, refused: 0 };
    for (let first = 0; first < all.length; first += GROUP) {
      const sessions = all.slice(first, first + GROUP);
      const got = await send({ ...value, sessions, plans: only(value.plans ?? {}, sessions) }, `${key}-${first}`);
      if (!got.ok) return { ...got, before: sum.items.length };
      sum.items.push(...got.document.items);
      sum.done += got.document.done;
      sum.refused += got.document.refused;
      $("[data-confirm]", form).textContent = `${sum.items.length} of ${all.length}`;
    }
    return { ok: true, status: 200, document: sum };
  }
  const only = (plans, ids) => Object.fromEntries(Object.entries(plans).filter(([id]) => ids.includes(id)));

  async function act(form, once = key) {
    const confirm = $("[data-confirm]", form), problem = $("[data-problem]", form);
    confirm.disabled = true;
    problem.hidden = true;
    let got;
    try { got = await inGroups(form, sent(form), once); }
    catch { // no answer: it may have been done. The same key again is done once, and answered as the first time.
      tell(form, "The server did not answer; it is not known whether it was done.", "\nPress the button again: if it was done, it is not done twice, and its outcome is shown.", ["Try again", () => act(form, once)]);
      return;
    }
    if (got.ok) { done(form, got.document); return; }
    if (got.status === 409 && got.document.plan) { // nothing was done: show what would happen now
      if (form.isConnected) await openAgain(form);
      else tell(form, "The state moved since the plan was shown. Nothing was done.", "", ["Show the plan now", () => openAgain(form)]);
      return;
    }
    const told = (got.document.hints ?? []).filter((hint) => hint !== "see /openapi.json"); // that is for programs
    const hints = [...told, ...(got.document.commands ?? [])].map((hint) => `\nhint: ${hint}`).join("");
    const other = got.document.code === "RL-6007" ? "The first request may have been done, and this is another one. Look at the session; pressing again does this one too.\n" : "";
    const before = got.before ? `${got.before} of them were sent before and have their outcome; the rest was not done.\n` : "";
    if (got.status < 500 && got.document.code !== "RL-6008" && key === once) key += "+"; // answered, and not done: the next press is another request
    tell(form, `${before}${other}${got.document.detail ?? "refused"} (${got.document.code ?? got.status})${hints}`);
  }

  // Why something was not done: in its dialog; or, where that was closed meanwhile, beside the page.
  function tell(form, text, inDialog = "", ...actions) {
    if (!form.isConnected) { toast(`${$("h2", form).textContent}: ${text}`, { bad: true, actions }); return; }
    const problem = $("[data-problem]", form);
    problem.hidden = false;
    problem.textContent = text + inDialog;
    $("[data-confirm]", form).disabled = false;
    problem.scrollIntoView({ block: "nearest" });
  }

  // The same dialog with the plan as it is now. What was typed or unticked stays so; what has to be chosen is chosen again.
  async function openAgain(form) {
    const typed = asked(form, "textarea[name], input[type=text][name]").filter((one) => one.value !== one.defaultValue).map((one) => [one.name, one.value]);
    const off = $$("input[type=checkbox]:not(:checked)", form).map((one) => [one.name, one.value]);
    await open(form.dataset.again);
    const mine = (which, name) => $$(which, dialog).filter((one) => one.name === name);
    for (const [name, value] of typed) for (const one of mine("textarea, input[type=text]", name)) one.value = value;
    for (const [name, value] of off) for (const one of mine("input[type=checkbox]", name)) if (one.value === value) one.checked = false;
    $("form", dialog)?.dispatchEvent(new Event("change"));
    const again = $("[data-problem]", dialog);
    if (again) { again.hidden = false; again.textContent = "The state moved since the plan was shown. Nothing was done; this is the plan now."; }
  }

  function done(form, document_) {
    const goes = form.dataset.goes, undo = form.dataset.undo;
    const id = document_.session?.id ?? document_.id ?? document_.session;
    const text = "refused" in document_ ? outcomes(form, document_) : form.dataset.path.endsWith("/resume") ? begun(form, document_) : went(form, document_);
    const there = goes ? goes.replace("{id}", encodeURIComponent(id ?? "")) : "";
    const of = Number(document_.seq ?? document_.step?.split("@")[1]) || undefined; // undo this operation, not a later one
    const actions = undo ? [["Undo", () => takeBack(undo, of)]] : [];
    if (!form.isConnected) { // closed meanwhile: where one is by now is not left, and a dialog that is open there stays
      toast(`✓ ${text}`, { actions: there ? [...actions, ["Open", () => { location.href = there; }]] : actions });
      relight.paint?.();
      return;
    }
    leaving = true;
    dialog.close();
    if (there || home) { remember(text, undo, of); location.href = there || home; return; }
    if (["checkpoint", "operations"].includes(body.dataset.page)) { remember(text, undo, of); location.reload(); return; } // said there: a press on what goes away would be lost
    toast(`✓ ${text}`, { actions });
    relight.paint();
  }

  // A start has an outcome: it runs, it is queued, or it has ended already. The present state is shown.
  function begun(form, { session }) {
    if (!session?.status) return form.dataset.done;
    const name = form.dataset.done.replace(/ runs$/, ""), why = session.reason ? `: ${session.reason}` : "";
    if (session.status === "working" || session.status === "spawning") return form.dataset.done;
    if (session.status !== "queued") return `${name} is ${session.status}${why}`;
    const until = session.wake_at ? ` until ${new Date(session.wake_at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false })}` : "";
    return `${name} does not run yet: it is queued${until}${why}`;
  }

  // An answer, and whether the session continues: started, or why not.
  function went(form, { started, not_started: why }) {
    if (why) return `${form.dataset.done}; not started: ${why}`;
    return started ? `${form.dataset.done}; ${begun({ dataset: { done: "it runs" } }, started)}` : form.dataset.done;
  }

  // Each of several sessions has its own outcome; refused ones are named.
  function outcomes(form, { items, done: number, refused }) {
    const name = (id) => $$("[data-list]", form).find((one) => one.value === id)?.parentElement.querySelector(".mono")?.textContent ?? id;
    const not = items.filter((one) => !one.done).map((one) => `\n${name(one.session)}: ${one.detail}`);
    return `${number} ${form.dataset.done}${refused ? `, ${refused} not:${not.slice(0, 10).join("")}${not.length > 10 ? "\n…" : ""}` : ""}`;
  }

  async function takeBack(address, of, once = `undo-${Date.now()}-${Math.random()}`) {
    let got;
    try { got = await call("POST", address, { of }, null, once); } catch {
      toast("no answer: it is not known whether it was undone", { bad: true, actions: [["Retry", () => takeBack(address, of, once)]] });
      return;
    }
    toast(got.ok ? "✓ undone" : `not undone: ${got.document.detail ?? got.status}`, { bad: !got.ok });
    if (got.ok) relight.paint ? relight.paint() : location.reload();
  }

  // A word that outlives the page it was said on.
  function remember(text, undo = "", of = undefined) { try { sessionStorage.setItem("relight.said", JSON.stringify({ text, undo, of })); } catch { /* it is lost */ } }
  function recall() {
    try {
      const kept = sessionStorage.getItem("relight.said");
      sessionStorage.removeItem("relight.said");
      if (!kept) return;
      const { text, undo, of } = JSON.parse(kept);
      toast(`✓ ${text}`, { actions: undo ? [["Undo", () => takeBack(undo, of)]] : [] });
    } catch { /* nothing to say */ }
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-dialog]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    if (body.hasAttribute("data-store-gone")) { toast("the store is unavailable", { bad: true }); return; }
    const menu = link.closest("details.more");
    open(link.getAttribute("href"), menu ? $("summary", menu) : link);
    if (menu) menu.open = false;
  });

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (form.matches("form[data-action]")) {
      event.preventDefault();
      if (event.submitter?.matches("[data-confirm]") && dialog.open) act(form);
    } else if (form.matches("form[data-answer]")) { // the one action of a peek
      event.preventDefault();
      const field = $("input[name=text]", form);
      if (!field?.value.trim()) return;
      form.dataset.key ||= `answer-${Date.now()}-${Math.random()}`; // until an answer came: the same again is done once
      let got;
      try { got = await call("POST", `/api/sessions/${form.dataset.answer}/send`, { text: field.value, resume: "resume" in form.dataset }, form.dataset.plan, form.dataset.key); }
      catch { toast("no answer: it is not known whether it was sent; press again, it is not sent twice", { bad: true }); return; }
      if (got.status < 500) form.dataset.key = "";
      toast(got.ok ? `✓ ${went({ dataset: { done: "answered" } }, got.document)}` : `${got.document.detail ?? got.status}`, { bad: !got.ok });
      if (got.ok) { form.remove(); relight.paint?.(); }
    }
  });

  recall();
  relight.openDialog = open;
  relight.begun = begun;
  const standing = $("main form[data-action]");
  if (standing) { standing.remove(); open(standing.dataset.again); }
})();
