// What the views share: words, and small components. Text from hooks and agents becomes text nodes, never HTML.

import { html, useEffect, useState } from "./preact.js";

export const address = (view, fields = {}) =>
  `#/${view}?${new URLSearchParams(Object.entries(fields).filter(([, value]) => value))}`;

export function clock(time) {
  const date = new Date(time);
  const day = date.toDateString() === new Date().toDateString() ? "" : `${date.toISOString().slice(5, 10)} `;
  return day + date.toTimeString().slice(0, 8);
}

export function ago(time) {
  const seconds = Math.max(0, (Date.now() - new Date(time).getTime()) / 1000);
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]])
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit} ago`;
  return `${Math.floor(seconds)} s ago`;
}

export function ms(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 10000) return `${(value / 1000).toFixed(1)} s`;
  return `${value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2)} ms`;
}

export const number = (value) => (value ? value.toLocaleString("en") : "–");
export const plural = (count, thing) => `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : "s"}`;
/** The text of an event, with paths below the project as people write them. */
export const inside = (row) => row.text.replaceAll(row.project && `${row.project.replace(/^[^/]+/, "")}/`, "");
export const base = (project) => project.replace(/\/(?:.*\/)?(?=[^/])/, ""); // in a fleet `web-1:shop`

export const Badge = ({ of, tone = of }) =>
  html`<span class="badge ${tone}">${of && of !== "none" ? of.replaceAll("_", " ") : "–"}</span>`;
export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;
export const Loading = ({ children = "Loading …" }) => html`<p class="empty" role="status">${children}</p>`;
export const Failure = ({ of }) => html`<div class="problem" role="alert"><strong>${of.message}</strong>
  ${of.hint && html`<p>hint: ${of.hint}</p>`}</div>`;

/** A command with a button that copies it. */
export function Copyable({ label, command }) {
  const [copied, setCopied] = useState(false);
  const copy = () => navigator.clipboard.writeText(command).then(() => setCopied(true));
  return html`<div class="command"><span class="label">${label}</span>
    <button type="button" aria-label="Copy: ${label}" onClick=${copy}>${copied ? "Copied" : "Copy"}</button>
    <code>${command}</code></div>`;
}

/** A table. Columns whose title begins with `#` are numbers. */
export function Table({ title, columns, rows, empty = "Nothing so far." }) {
  if (!rows.length) return html`<${Empty}>${empty}<//>`;
  const kinds = columns.map((column) => (column.startsWith("#") ? "n" : ""));
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${title}><table>
    <caption class="hidden">${title}</caption>
    <thead><tr>${columns.map((one, at) => html`<th scope="col" class=${kinds[at]}>${one.replace("#", "")}</th>`)}</tr>
    </thead><tbody>${rows.map((cells) => html`<tr>${cells.map((one, at) =>
      html`<td class=${kinds[at]}>${one}</td>`)}</tr>`)}</tbody></table></div>`;
}

/** A list of findings, each with a badge, its message and what to do. */
export const Findings = ({ of }) => html`<ul class="findings">${of.map((one) => html`<li>
  <${Badge} of=${one.badge} tone=${one.tone} /><span>${one.text}${one.more.map((text) =>
  text && html`<small>${text}</small>`)}</span></li>`)}</ul>`;

/** What `load` returns: undefined while it loads, an Error if it fails. It loads again if an input changes. */
export function useLoaded(load, ...inputs) {
  const [found, setFound] = useState();
  useEffect(() => {
    let isCurrent = true;
    const keep = (value) => isCurrent && setFound(value);
    keep(undefined);
    load().then(keep, keep);
    return () => { isCurrent = false; };
  }, inputs);
  return found;
}

/** A view of one project: `children` draws what `load` returns. */
export function ProjectView({ title, project, load, children }) {
  const found = useLoaded(async () => project && load(project), project);
  const content = !project ? html`<${Empty}>No project has events yet.<//>` : found === undefined ? html`<${Loading} />`
    : found instanceof Error ? html`<${Failure} of=${found} />` : children(found);
  return html`<h1 class="hidden">${title}</h1>${content}`;
}
