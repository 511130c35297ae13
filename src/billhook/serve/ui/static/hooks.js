// Hooks: every hook with its status, speed and failures, and the findings of `billhook check`.

import { command } from "./api.js";
import { ago, failure, h, loading, ms, number, table } from "./dom.js";

const STATES = { runs: "good", new: "warn", changed: "warn", broken: "bad" };

export function hooks(main, app) {
  let project = "";
  async function draw() {
    project = app.project;
    main.replaceChildren(h("h1", { class: "hidden" }, "Hooks"), loading());
    if (!project) return main.replaceChildren(h("p", { class: "empty" }, "No project has events yet."));
    const results = await Promise.allSettled(["list", "summary", "check"].map((name) => command(name, project)));
    if (project !== app.project || !main.classList.contains("hooks")) return;
    const [listed, summary, check] = results.map((one) => one.value);
    const problems = results.filter((one) => one.reason).map((one) => failure(one.reason));
    const stats = new Map((summary?.[0].hooks || []).map((one) => [one.name, one]));
    main.replaceChildren(h("h1", { class: "hidden" }, "Hooks"), ...problems,
      h("section", { "aria-labelledby": "findings" }, h("h2", { id: "findings" }, "Findings of check"), findings(check || [])),
      h("section", { "aria-labelledby": "hooks-title" }, h("h2", { id: "hooks-title" }, `Hooks in ${project}`), table("Hooks", ["Hook", "Events", "Status", "Trust", "Last ran", "#Runs", "#p50", "#p95", "#Failed", "#Failed open", "Place"],
        (listed || []).map((one) => row(one, stats.get(one.name))))));
  }
  draw();
  return { update: () => app.project !== project && draw() };
}

function row(one, stats = {}) {
  const state = h("span", { class: STATES[one.state] || "muted", title: one.why }, one.shadow ? `${one.state}, shadow` : one.state, one.why && one.state !== "runs" ? h("small", {}, one.why) : null);
  const query = new URLSearchParams({ hook: one.name });
  return [h("div", { class: "name" }, h("a", { href: `#/timeline?${query}`, "data-row": true }, one.name), h("small", {}, one.what)), one.events.length > 3 ? `${one.events.length} events` : one.events.join(", ") || "every event", state, one.trust,
    one.last_fired ? h("time", { datetime: one.last_fired, title: one.last_fired }, ago(one.last_fired)) : "never", number(stats.runs), ms(stats.p50), ms(stats.p95),
    h("span", { class: stats.failures ? "bad" : null }, number(stats.failures)), h("span", { class: stats.failed_open ? "bad" : null }, number(stats.failed_open)),
    h("span", { class: "muted place" }, one.file ? `${one.file.split("/").slice(-2).join("/")}:${one.line ?? ""}` : one.source)];
}

function findings(found) {
  if (!found.length) return h("p", { class: "empty" }, "No problems found.");
  return h("ul", { class: "findings" }, found.map((one) => h("li", {}, h("span", { class: `badge ${one.level === "error" ? "deny" : "ask"}` }, one.code || one.level), h("span", {}, one.message, h("small", {}, one.place), one.hint ? h("small", {}, `hint: ${one.hint}`) : null))));
}
