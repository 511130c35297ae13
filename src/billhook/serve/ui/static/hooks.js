// Hooks: every hook with its status, speed and failures, and the findings of `billhook check`.
import { command } from "./api.js";
import { address, ago, base, Empty, Failure, Findings, ms, number, ProjectView, Table } from "./parts.js";
import { html } from "./preact.js";

const STATES = { runs: "good", new: "warn", changed: "warn", broken: "bad" };
const COLUMNS = ["Hook", "Events", "Status", "Trust", "Last ran", "#Runs", "#p50", "#p95", "#Failed", "#Failed open",
  "Place"];

export const Hooks = ({ app }) => html`<${ProjectView} title="Hooks" project=${app.project} load=${load}>${draw}<//>`;

const load = async (project) => ({ project,
  results: await Promise.allSettled(["list", "summary", "check"].map((name) => command(name, project))) });

function draw({ project, results }) {
  const [listed, summary, check] = results.map((one) => one.value);
  const stats = new Map((summary?.[0].hooks || []).map((one) => [one.name, one]));
  const rows = (listed || [...stats.keys()].map(recorded)).map((one) => row(one, stats.get(one.name)));
  const failures = new Map(results.map(({ reason }) => [reason?.message, reason]));
  return html`${[...failures.values()].map((one) => one && html`<${Failure} of=${one} />`)}
    ${check && html`<section><h2>Findings of check</h2>${check.length ? html`<${Findings} of=${check.map(finding)} />`
      : html`<${Empty}>No problems found.<//>`}</section>`}
    <section><h2 title=${project}>Hooks in ${base(project)}</h2>
      <${Table} title="Hooks" columns=${COLUMNS} rows=${rows} /></section>`;
}

const finding = (one) => ({ badge: one.code || one.level, tone: one.level === "error" ? "deny" : "ask",
  text: one.message, more: [one.place, one.hint && `hint: ${one.hint}`] });

const recorded = (name) => ({ name, ran: "–", events: ["–"], state: "–", trust: "–", source: "–" });
const bad = (count) => html`<span class=${count && "bad"}>${number(count)}</span>`;

function row(one, stats = {}) {
  const state = html`<span class=${STATES[one.state] || "muted"}>${one.state}${one.shadow && ", shadow"}
    ${one.why && one.state !== "runs" && html`<small>${one.why}</small>`}</span>`;
  const name = html`<div class="name"><a data-row href=${address("timeline", { hook: one.name })}>${one.name}</a>
    <small>${one.what}</small></div>`;
  const fired = one.last_fired ? html`<time title=${one.last_fired}>${ago(one.last_fired)}</time>` : one.ran || "never";
  const place = one.file ? `${one.file.split("/").slice(-2).join("/")}:${one.line ?? ""}` : one.source;
  const events = one.events.length > 3 ? `${one.events.length} events` : one.events.join(", ") || "every event";
  return [name, events, state, one.trust, fired, number(stats.runs), ms(stats.p50), ms(stats.p95), bad(stats.failures),
    bad(stats.failed_open), html`<span class="muted place" title=${one.source}>${place}</span>`];
}
