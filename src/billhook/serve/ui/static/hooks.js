// Hooks: every hook with its status, speed and failures, and the findings of `billhook check`.

import { command } from "./api.js";
import { ago, base, failure, h, ms, number, projectView, table } from "./dom.js";

const STATES = { runs: "good", new: "warn", changed: "warn", broken: "bad" };

const TITLES = ["Hook", "Events", "Status", "Trust", "Last ran", "#Runs", "#p50", "#p95", "#Failed", "#Failed open",
  "Place"];

export const hooks = (main, app) => projectView(main, app, "Hooks", async (project) => {
  const results = await Promise.allSettled(["list", "summary", "check"].map((name) => command(name, project)));
  const [listed = [], summary, check = []] = results.map((one) => one.value);
  const stats = new Map((summary?.[0].hooks || []).map((one) => [one.name, one]));
  const rows = listed.map((one) => row(one, stats.get(one.name)));
  return [results.map((one) => one.reason && failure(one.reason)),
    h("section", {}, h("h2", {}, "Findings of check"), findings(check)),
    h("section", {}, h("h2", { title: project }, `Hooks in ${base(project)}`), table("Hooks", TITLES, rows))];
});

const bad = (count) => h("span", { class: count ? "bad" : null }, number(count));

function row(one, stats = {}) {
  const why = one.why && one.state !== "runs" ? h("small", {}, one.why) : null;
  const state = h("span", { class: STATES[one.state] || "muted" }, one.state, one.shadow ? ", shadow" : "", why);
  const link = h("a", { href: `#/timeline?${new URLSearchParams({ hook: one.name })}`, "data-row": true }, one.name);
  const fired = one.last_fired ? h("time", { datetime: one.last_fired, title: one.last_fired }, ago(one.last_fired))
    : "never";
  const place = one.file ? `${one.file.split("/").slice(-2).join("/")}:${one.line ?? ""}` : one.source;
  return [h("div", { class: "name" }, link, h("small", {}, one.what)),
    one.events.length > 3 ? `${one.events.length} events` : one.events.join(", ") || "every event", state, one.trust,
      fired,
    number(stats.runs), ms(stats.p50), ms(stats.p95), bad(stats.failures), bad(stats.failed_open),
    h("span", { class: "muted place", title: one.source }, place)];
}

function findings(found) {
  if (!found.length) return h("p", { class: "empty" }, "No problems found.");
  return h("ul", { class: "findings" }, found.map((one) => {
    const text = h("span", {}, one.message, h("small", {}, one.place), one.hint && h("small", {}, `hint: ${one.hint}`));
    return h("li", {}, h("span", { class: `badge ${one.level === "error" ? "deny" : "ask"}` }, one.code || one.level),
      text);
  }));
}
