// Timeline: the events of a project, newest first, with filters, and one event in full.

import { get } from "./api.js";
import { announce, badge, clock, failure, h, inside, loading, ms, plural } from "./dom.js";
import { detail } from "./event.js";

const PAGE = 100;
const DECISIONS = ["", "deny", "ask", "allow", "defer", "none"];
const FIELDS = ["text", "decision", "tool", "hook", "event", "session"];

export function timeline(main, app, first) {
  let fields = first;
  let wait = null; // aborts the requests of an earlier filter
  let before = 0;
  let newest = 0;
  let busy = false;
  let opened = "";
  const seen = { tool: new Set(), hook: new Set(), event: new Set(), session: new Set() };
  const form = h("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() });
  const list = h("ol", { class: "events", "aria-label": "Events" });
  const more = h("div", { class: "more" });
  const pane = h("aside", { class: "pane", "aria-label": "Event", hidden: true });
  const found = h("span", { class: "muted found", role: "status" });
  main.append(h("h1", { class: "hidden" }, "Timeline"), form,
    h("div", { class: "split" }, h("div", { class: "column" }, list, more), pane));
  const observer = new IntersectionObserver((entries) => entries.some((one) => one.isIntersecting) && next(),
    { rootMargin: "600px" });
  observer.observe(more);
  const inputs = {};

  function control(name, label, element) {
    inputs[name] = element;
    element.setAttribute("aria-label", label);
    element.addEventListener(name === "text" || name === "hook" ? "input" : "change", () => delayed(change));
    return element;
  }

  function drawForm() {
    const options = (name, all) => h("select", {}, h("option", { value: "" }, all),
      h("option", { value: fields[name] || "", hidden: true }, fields[name] || ""));
    const hooks = h("datalist", { id: "hooks" });
    form.append(
      control("text", "Search in events", h("input", { type: "search", placeholder: "Search  /" })),
      control("decision", "Decision", h("select", {}, DECISIONS.map((one) =>
        h("option", { value: one }, one || "any decision")))),
      control("tool", "Tool", options("tool", "any tool")),
      control("event", "Event", options("event", "any event")),
      control("hook", "Hook", h("input", { type: "text", list: "hooks", placeholder: "hook" })), hooks,
      control("session", "Session", options("session", "all sessions")),
      h("label", { class: "check" }, control("failed", "A hook failed", h("input", { type: "checkbox" })), "failed"),
      found);
    for (const name of FIELDS) inputs[name].value = fields[name] || "";
    inputs.failed.checked = Boolean(fields.failed);
  }

  let timer = 0;
  function delayed(work) {
    clearTimeout(timer);
    timer = setTimeout(work, 200);
  }

  function change() {
    const chosen = { project: app.project };
    for (const name of FIELDS) if (inputs[name].value) chosen[name] = inputs[name].value;
    if (inputs.failed.checked) chosen.failed = "true";
    if (fields.id) chosen.id = fields.id;
    history.replaceState(null, "", `#/timeline?${new URLSearchParams(chosen)}`);
    fields = chosen;
    load();
  }

  const filter = () => ({ ...Object.fromEntries(FIELDS.map((name) => [name, fields[name]])), failed: fields.failed,
    project: app.project });

  function load() {
    wait?.abort();
    wait = new AbortController();
    list.replaceChildren();
    before = newest = 0;
    busy = false;
    more.replaceChildren(loading());
    next(true);
  }

  async function next(isFirst = false) {
    if (busy || (!isFirst && !before) || !app.project) return;
    busy = true;
    const mine = wait;
    try {
      const page = await get("events", { ...filter(), before: before || "", limit: PAGE }, mine.signal);
      before = page.before;
      if (page.rows.length) append(page.rows);
      ending();
    } catch (error) {
      if (error.name !== "AbortError") more.replaceChildren(failure(error));
      before = 0;
    } finally {
      if (mine === wait) busy = false;
    }
    const room = more.getBoundingClientRect().top < innerHeight + 600;
    if (mine === wait && before && room) next();
  }

  function append(rows) {
    newest = Math.max(newest, rows[0].seq);
    list.append(h("li", { class: "chunk" }, h("ol", { class: "rows" }, rows.map(line))));
    learn(rows);
  }

  function ending() {
    const count = list.querySelectorAll(".row").length;
    found.textContent = `${plural(count, "event")}${before ? " so far" : ""}`;
    more.replaceChildren(before ? loading("Searching older events …")
      : h("p", { class: "empty" }, count ? "The beginning of the log" : "No event matches."));
  }

  function line(row) {
    const query = new URLSearchParams({ ...Object.fromEntries(Object.entries(filter()).filter(([, value]) => value)),
      id: row.id });
    const label = `${row.event} ${row.tool} ${row.decision}`;
    return h("li", {}, h("a", { class: `row ${row.decision}${row.failed ? " failed" : ""}`,
      href: `#/timeline?${query}`, "data-row": true, "data-id": row.id, title: label,
      "aria-current": row.id === opened ? "true" : null },
      h("time", { datetime: row.time }, clock(row.time)),
      h("span", { class: "event" }, row.event),
      h("span", { class: "what" }, h("span", { class: "tool" }, row.tool), " ",
        h("span", { class: "text" }, inside(row))),
      badge(row.decision),
      h("span", { class: "hook" }, row.by.join(", ") || (row.failed ? "failed" : "")),
      h("span", { class: "ms" }, ms(row.ms))));
  }

  function learn(rows) {
    for (const row of rows) {
      for (const name of ["tool", "event"]) if (row[name]) offer(name, row[name], row[name]);
      if (row.session) offer("session", row.session, row.name || row.session.slice(0, 8));
      for (const hook of row.hooks) if (!seen.hook.has(hook)) {
        seen.hook.add(hook);
        form.querySelector("datalist").append(h("option", { value: hook }));
      }
    }
  }

  function offer(name, value, label) {
    if (seen[name].has(value)) return;
    seen[name].add(value);
    const chosen = inputs[name].value;
    inputs[name].querySelector("[hidden]")?.remove();
    inputs[name].append(h("option", { value }, label));
    if (chosen && ![...inputs[name].options].some((one) => one.value === chosen)) inputs[name].append(h("option",
      { value: chosen }, chosen));
    inputs[name].value = chosen;
  }

  /** Whether new events can be filtered here; otherwise the daemon does it. */
  const matches = (row) => row.project === app.project
    && ["tool", "event", "session", "decision"].every((name) => !fields[name] || row[name] === fields[name])
    && (!fields.failed || row.failed);

  async function fresh(found) {
    let rows = (found.rows || []).filter((row) => row.project === app.project && row.seq > newest);
    if (!rows.length && !found.missed) return;
    if (found.missed) return load();
    if (fields.text || fields.hook) rows = (await get("events", { ...filter(), after: newest, limit: 200 })).rows;
    else rows = rows.filter(matches);
    if (!rows.length) return;
    newest = Math.max(newest, ...rows.map((row) => row.seq));
    const column = list.parentElement;
    const height = column.scrollHeight;
    list.prepend(h("li", { class: "chunk new" }, h("ol", { class: "rows" }, rows.map(line))));
    if (column.scrollTop > 0) column.scrollTop += column.scrollHeight - height; // what is read stays where it is
    learn(rows);
    ending();
  }

  function open(id) {
    if (id === opened) return;
    const last = opened;
    opened = id;
    for (const one of list.querySelectorAll("[aria-current]")) one.removeAttribute("aria-current");
    const row = id && list.querySelector(`[data-id="${CSS.escape(id)}"]`);
    row && row.setAttribute("aria-current", "true");
    pane.hidden = !id;
    main.classList.toggle("opened", Boolean(id));
    if (id) {
      detail(pane, app.project, id, close).then(() => announce("Event opened"));
    } else list.querySelector(`[data-id="${CSS.escape(last)}"]`)?.focus();
  }

  function close() {
    const { id, ...rest } = fields;
    if (id) location.hash = `#/timeline?${new URLSearchParams({ ...rest, project: app.project })}`;
  }

  function update(changed) {
    const { id, find, ...rest } = changed;
    const { id: _, find: __, ...old } = fields;
    const same = JSON.stringify({ ...rest, project: app.project }) === JSON.stringify({ ...old, project: drawn });
    fields = changed;
    if (!same) {
      for (const name of FIELDS) {
        if (rest[name] && inputs[name].tagName === "SELECT") offer(name, rest[name], rest[name]);
        inputs[name].value = rest[name] || "";
      }
      inputs.failed.checked = Boolean(rest.failed);
      drawn = app.project;
      load();
    }
    open(id || "");
    if (find) inputs.text.focus();
  }

  let drawn = app.project;
  drawForm();
  load();
  open(fields.id || "");
  if (fields.find) inputs.text.focus();
  return { update, news: fresh, escape: close, close: () => { observer.disconnect(); wait?.abort(); } };
}
