// One event in full: what it was, what each hook answered, and commands for it.
import { command, get } from "./api.js";
import { Badge, clock, Copyable, Empty, Failure, Loading, ms, useLoaded } from "./parts.js";
import { html, useEffect, useRef, useState } from "./preact.js";

const pretty = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
const isEmpty = (value) => !value || (typeof value === "object" && !Object.keys(value).length);
const Section = ({ title, children }) => html`<section><h3>${title}</h3>${children}</section>`;
const Block = ({ title, value }) => !isEmpty(value) && html`<${Section} title=${title}>
  <pre tabindex="0" role="group" aria-label=${title}>${pretty(value)}</pre><//>`;

export function Detail({ app, id, close }) {
  const found = useLoaded(() => get("event", { project: app.project, id }), id);
  const title = useRef();
  useEffect(() => title.current?.focus({ preventScroll: true }), [found]);
  if (!found) return html`<${Loading} />`;
  if (found instanceof Error)
    return html`<button type="button" data-close onClick=${close}>Close</button><${Failure} of=${found} />`;
  const { row, record, effects } = found;
  return html`<header><${Badge} of=${row.decision} /><h2 tabindex="-1" ref=${title}>${row.event} ${row.tool}</h2>
      <span class="grow"></span><button type="button" class="icon" data-close aria-label="Close the event"
        onClick=${close}>✕</button></header>
    ${record.reason && html`<p class="reason">${record.reason}</p>`}
    <${Facts} ...${found} />
    <${Section} title="Answers of hooks"><ul class="outcomes">${record.outcomes.map(outcome)}${skipped(record)}</ul><//>
    ${effects.length > 0 && html`<${Section} title="Effects"><ul>${effects.map((one) => html`<li>
      <strong>${one.kind} </strong>${one.target && html`<code>${one.target}</code>`}${!one.certain
        && html`<span class="muted"> (possibly)</span>`}</li>`)}</ul><//>`}
    <${Block} title=${record.tool ? "Input" : "Fields"} value=${record.input} />
    <${Block} title="Input after rewrites" value=${record.rewritten_input} />
    <${Block} title="Output" value=${record.output} />
    <${Block} title="Context for the model" value=${record.context.join("\n")} />
    <${Section} title="Today's rules"><${Replay} project=${app.project} row=${row} /><//>
    <${Section} title="Commands">${commands(record).map(([label, text]) =>
      html`<${Copyable} label=${label} command=${text} />`)}<//>`;
}

function Facts({ row, record, problem }) {
  const list = [["time", `${row.time.replace("T", " ").slice(0, 19)} UTC (${clock(row.time)} here)`],
    ["session", `${row.name || "–"}  ${row.session}`], ["turn", row.turn], ["agent", row.host], ["folder", record.cwd],
    ["took", ms(row.ms)], ["permission mode", record.permission_mode], ["subagent", record.agent_type],
    ["record", `${record.seq}, ${record.id}`]];
  return html`<dl class="facts">${list.filter(([, value]) => value).map(([name, value]) =>
    html`<dt>${name}</dt><dd>${value}</dd>`)}<dt>hash</dt><dd class=${problem ? "bad" : "good"}>${
    problem || "unchanged since it was written"}</dd></dl>`;
}

function outcome(one) {
  const isQuiet = one.decision === "none" && one.status === "ok" && !one.reason;
  const notes = [one.reason, one.error, one.message && `message: ${one.message}`,
    one.context && `context: ${one.context}`, one.waived && `its answer did not count (${pretty(one.waived)})`];
  const tone = one.status === "skipped" ? "" : "deny";
  return html`<li class=${isQuiet && "quiet"}><div><strong>${one.hook}</strong><span class="muted"> ${one.source}</span>
    <span class="grow"></span>${one.status === "ok" ? html`<${Badge} of=${one.decision} />`
      : html`<${Badge} of=${one.status} tone=${tone} />`}<span class="ms">${ms(one.duration_ms)}</span></div>
    ${notes.filter(Boolean).map((text) => html`<p>${text}</p>`)}
    ${one.failed_open && html`<p class="bad">failed open: the event continued without its answer</p>`}</li>`;
}

function skipped(record) {
  const ran = new Set(record.outcomes.map((one) => one.hook));
  const others = Object.entries(record.not_asked).filter(([hook]) => !ran.has(hook));
  return others.map(([hook, why]) => html`<li class="quiet"><div><strong>${hook}</strong>
    <span class="grow"></span><span class="muted">skipped: ${why}</span></div></li>`);
}

function Replay({ project, row }) {
  const [isWanted, want] = useState(false);
  const found = useLoaded(async () => isWanted && command("explain", project, row.id), isWanted);
  if (!isWanted) return html`<button type="button" onClick=${() => want(true)}>Replay with today's rules</button>`;
  if (!found) return html`<${Loading}>Replaying …<//>`;
  if (found instanceof Error) return html`<${Failure} of=${found} />`;
  const [{ today }] = found;
  if (!today) return html`<${Empty}>The present rules can't judge this event.<//>`;
  return html`<p class="today">then <${Badge} of=${row.decision} /> now <${Badge} of=${today.decision} />
    ${today.by.length > 0 && ` by ${today.by.join(", ")}`}</p>
    ${today.reason && html`<p class="reason">${today.reason}</p>`}
    ${today.not_known.length > 0 && html`<p class="muted">not known without running: ${today.not_known.map(pretty)
      .join(", ")}</p>`}`;
}

function commands(record) {
  const id = record.id.slice(0, 12);
  const codes = record.outcomes.map((one) => one.code).filter(Boolean);
  return [...codes.map((code) => ["Allow this call once", `billhook allow-once ${code}`]),
    ["Explain the decision", `billhook explain ${id}`],
    ...(record.tool ? [["Save as a test for hooks.yaml", `billhook events save ${id} --as-test`]] : []),
    ["Show the record", `billhook events show ${id}`]];
}
