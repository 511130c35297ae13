// Insights: counts over the newest events of the log, as small charts.
import { command } from "./api.js";
import { Empty, ms, number, plural, ProjectView, Table } from "./parts.js";
import { html } from "./preact.js";

const DECISIONS = ["none", "allow", "ask", "defer", "deny"];
const WIDTH = 640;
const HEIGHT = 120;

export const Insights = ({ app }) => html`<${ProjectView} title="Insights" project=${app.project}
  load=${(project) => command("summary", project)}>${draw}<//>`;

function draw([found]) {
  const ran = found.hooks.filter((one) => one.runs && one.name !== "approvals"); // that is the wait for a person
  const slow = ran.map((one) => [one.name, one.p95, ms(one.p95)]);
  const failing = ran.filter((one) => one.failures).sort((a, b) => b.failures - a.failures)
    .map((one) => [one.name, one.failures, `${number(one.failures)} of ${number(one.runs)}`]);
  const added = found.tools.map((one) => [one.tool, one.p95, `${ms(one.p50)} / ${ms(one.p95)}`]);
  const denied = found.denied.map((one) => [one.tool, html`<code>${one.text}</code>`, number(one.count)]);
  return html`<p class="muted">${plural(found.events, "event")}${!found.complete && ", the newest in the log"}</p>
    <div class="cards">
      <${Card} title="Decisions per day" size="wide"><${Days} of=${found.days} /><//>
      <${Card} title="Slowest hooks (p95)"><${Bars} rows=${slow} /><//>
      <${Card} title="Failing hooks"><${Bars} rows=${failing} empty="No hook failed." /><//>
      <${Card} title="Time added per tool event (p50 / p95)"><${Bars} rows=${added} /><//>
      <${Card} title="Most denied" size="wide"><${Table} title="Most denied calls" rows=${denied}
        columns=${["Tool", "Call", "#Denied"]} empty="Nothing was denied." /><//>
    </div>`;
}

const Card = ({ title, size, children }) => html`<section class="card ${size}"><h2>${title}</h2>${children}</section>`;

function Bars({ rows, empty = "Nothing so far." }) {
  if (!rows.length) return html`<${Empty}>${empty}<//>`;
  const most = Math.max(...rows.map(([, value]) => value || 0)) || 1;
  return html`<ul class="bars">${rows.slice(0, 8).map(([name, value, text]) => html`<li>
    <span class="name">${name}</span><svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
      <rect width=${Math.max(0.5, (100 * (value || 0)) / most)} height="6" /></svg>
    <span class="n">${text}</span></li>`)}</ul>`;
}

function Days({ of }) {
  if (!of.length) return html`<${Empty}>Nothing so far.<//>`;
  const most = Math.max(...of.map((day) => DECISIONS.reduce((total, name) => total + (day[name] || 0), 0)));
  const label = `Decisions per day from ${of[0].day} to ${of.at(-1).day}, at most ${number(most)} a day`;
  const words = (name) => (name === "none" ? "no objection" : name);
  return html`<svg class="days" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label=${label}
      preserveAspectRatio="none">${of.map((day, at) => column(day, at, most, WIDTH / Math.max(14, of.length)))}</svg>
    <p class="axis"><span>${of[0].day}</span><span>${of.at(-1).day}</span></p>
    <p class="legend">${DECISIONS.map((name) => html`<i class=${name} />${words(name)}`)}</p>`;
}

function column(day, at, most, step) {
  const names = DECISIONS.filter((name) => day[name]);
  let y = HEIGHT;
  const parts = names.map((name) => {
    const height = Math.max(name === "none" ? 0 : 2, (HEIGHT * day[name]) / most);
    y -= height;
    return html`<rect class=${name} x=${at * step + 1} y=${y} width=${Math.max(1, step - 3)} height=${height} />`;
  });
  const text = names.map((name) => `${name} ${number(day[name])}`).join(", ");
  return html`<g><title>${day.day}: ${text}</title>${parts}</g>`;
}
