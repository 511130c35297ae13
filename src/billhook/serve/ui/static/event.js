// One event in full: what it was, what each hook answered, and commands for it.

import { command, get } from "./api.js";
import { badge, clock, copyable, failure, fill, h, loading, ms, section } from "./dom.js";

const pretty = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
const isEmpty = (value) => !value || (typeof value === "object" && !Object.keys(value).length);
const block = (title, value) => (isEmpty(value) ? null
  : section(title, h("pre", { tabindex: "0", role: "group", "aria-label": title }, pretty(value))));

export async function detail(pane, project, id, close) {
  pane.replaceChildren(loading());
  let found;
  try {
    found = await get("event", { project, id });
  } catch (error) {
    pane.replaceChildren(h("button", { type: "button", onclick: close }, "Close"), failure(error));
    return;
  }
  const { row, record } = found;
  const title = h("h2", { tabindex: "-1" }, `${row.event} ${row.tool}`.trim());
  const today = h("div", { class: "today" });
  fill(pane,
    h("header", {}, badge(row.decision), title, h("span", { class: "grow" }),
      h("button", { type: "button", class: "icon", "aria-label": "Close the event", onclick: close }, "✕")),
    record.reason ? h("p", { class: "reason" }, record.reason) : null,
    facts(found),
    section("Answers of hooks", h("ul", { class: "outcomes" }, record.outcomes.map(outcome), skipped(record))),
    found.effects.length ? section("Effects", h("ul", { class: "effects" }, found.effects.map(effect))) : null,
    block(record.tool ? "Input" : "Fields", record.input),
    block("Input after rewrites", record.rewritten_input),
    block("Output", record.output),
    block("Context for the model", record.context.join("\n")),
    section("Today's rules", h("button", { type: "button", onclick: () => replay(today, project, row) },
      "Replay with today's rules"), today),
    section("Commands", commands(record)));
  title.focus({ preventScroll: true });
}

const effect = (one) => h("li", {}, h("strong", {}, one.kind), one.target && [" ", h("code", {}, one.target)],
  !one.certain && h("span", { class: "muted" }, " (possibly)"));

function facts({ row, record, problem }) {
  const list = [["time", `${row.time.replace("T", " ").slice(0, 19)} UTC (${clock(row.time)} here)`],
    ["session", `${row.name || "–"}  ${row.session}`], ["turn", row.turn], ["agent", row.host],
    ["folder", record.cwd], ["took", ms(row.ms)], ["permission mode", record.permission_mode],
      ["subagent", record.agent_type], ["record", `${record.seq}, ${record.id}`]];
  const state = problem ? h("span", { class: "bad" }, problem)
    : h("span", { class: "good" }, "unchanged since it was written");
  return h("dl", { class: "facts" }, list.filter(([, value]) => value).map(([name, value]) =>
    [h("dt", {}, name), h("dd", {}, value)]), h("dt", {}, "hash"), h("dd", {}, state));
}

function outcome(one) {
  const quiet = one.decision === "none" && one.status === "ok" && !one.reason;
  const notes = [one.reason, one.error, one.message && `message: ${one.message}`,
    one.context && `context: ${one.context}`, one.waived && `its answer did not count (${pretty(one.waived)})`];
  return h("li", { class: quiet ? "quiet" : null }, h("div", {}, h("strong", {}, one.hook),
    h("span", { class: "muted" }, ` ${one.source || ""}`), h("span", { class: "grow" }),
    one.status === "ok" ? badge(one.decision) : h("span",
      { class: `badge ${one.status === "skipped" ? "" : "deny"}` }, one.status.replaceAll("_", " ")),
      h("span", { class: "ms" }, ms(one.duration_ms))),
    notes.filter(Boolean).map((text) => h("p", {}, text)),
    one.failed_open ? h("p", { class: "bad" }, "failed open: the event continued without its answer") : null);
}

function skipped(record) {
  const ran = new Set(record.outcomes.map((one) => one.hook));
  return Object.entries(record.not_asked).filter(([hook]) => !ran.has(hook))
    .map(([hook, why]) => h("li", { class: "quiet" }, h("div", {}, h("strong", {}, hook),
      h("span", { class: "grow" }), h("span", { class: "muted" }, `skipped: ${why}`))));
}

async function replay(place, project, row) {
  place.replaceChildren(loading("Replaying …"));
  try {
    const [{ today }] = await command("explain", project, row.id);
    if (!today) place.replaceChildren(h("p", { class: "empty" }, "The present rules can't judge this event."));
    else place.replaceChildren(h("p", {}, "then ", badge(row.decision), " now ", badge(today.decision),
      today.by.length ? ` by ${today.by.join(", ")}` : ""),
      today.reason ? h("p", { class: "reason" }, today.reason) : "",
      today.not_known.length ? h("p", { class: "muted" },
        `not known without running: ${today.not_known.map(pretty).join(", ")}`) : "");
  } catch (error) {
    place.replaceChildren(failure(error));
  }
}

function commands(record) {
  const codes = record.outcomes.filter((one) => one.code);
  return [...codes.map((one) => copyable("Allow this call once", `billhook allow-once ${one.code}`)),
    copyable("Explain the decision", `billhook explain ${record.id.slice(0, 12)}`),
    record.tool ? copyable("Save as a test in hooks.yaml", asTest(record)) : null,
    copyable("Show the record", `billhook events show ${record.id.slice(0, 12)}`)];
}

/** A case for `tests:`; JSON is YAML. */
function asTest(record) {
  const shell = record.tool === "Bash" && typeof record.input?.command === "string";
  const call = shell ? { run: record.input.command } : { tool: record.tool, input: record.input };
  const decision = record.decision === "none" ? "allow" : record.decision;
  return `- ${JSON.stringify({ ...call, expect: decision })}`;
}
