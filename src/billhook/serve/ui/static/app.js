// The frame: login, views, news, keyboard.

import { get, listen, post } from "./api.js";
import { Health } from "./health.js";
import { Hooks } from "./hooks.js";
import { Insights } from "./insights.js";
import { Now } from "./now.js";
import { address, base, Failure } from "./parts.js";
import { html, render } from "./preact.js";
import { Timeline } from "./timeline.js";

const VIEWS = { now: Now, timeline: Timeline, hooks: Hooks, insights: Insights, health: Health };
const KEYS = [["j k", "next, previous row"], ["Enter", "open the row"], ["Esc", "close the event, or leave the field"],
  ["/", "search in the timeline"], ["1 2 3 4 5", "Now, Timeline, Hooks, Insights, Health"], ["?", "this list"]];
const app = { sessions: new Map(), questions: [], projects: [], project: "", view: "", fields: {}, state: "",
  problem: null, announced: "", hear: null, announce: (text) => set({ announced: text }), go };
const find = (selector) => document.querySelector(selector);

function set(changes) {
  Object.assign(app, changes);
  const waiting = app.questions.filter((one) => one.state === "waiting" && one.until > Date.now() / 1000).length;
  document.title = `${waiting ? `(${waiting}) ` : ""}billhook`;
  render(html`<${Frame} waiting=${waiting} />`, document.body);
}

function Frame({ waiting }) {
  const View = VIEWS[app.view];
  const count = (name) => name === "now" && html`<span class="count">${waiting || ""}</span>`;
  const link = (name) => html`<a href="#/${name}" data-view=${name} 
    aria-current=${name === app.view ? "page" : null}>${name[0].toUpperCase() + name.slice(1)}${count(name)}</a>`;
  const choose = (event) => {
    location.hash = address(app.view === "now" ? "timeline" : app.view, { project: event.target.value });
  };
  return html`<a class="skip" href="#main">Skip to content</a>
    <header>
      <span class="brand"><img src="icon.svg" alt="" width="18" height="18" />billhook</span>
      <nav aria-label="Views">${Object.keys(VIEWS).map(link)}</nav>
      <span class="grow"></span>
      <label class="project"><span class="hidden">Project</span><select id="project" value=${app.project}
        onChange=${choose}>${app.projects.map((one) => html`<option value=${one} title=${one}>${base(one)}</option>`)}
      </select></label>
      <span role="status" class="state ${app.state}" title=${app.state === "offline"
        && "No connection to the daemon; `billhook ui` opens a new page"}>${app.state}</span>
      <button id="help" class="icon" type="button" aria-label="Keyboard shortcuts" onClick=${help}>?</button>
    </header>
    <main id="main" tabindex="-1" class=${app.view}>${app.problem ? html`<div class="blank"><h1>Not logged in</h1>
      <${Failure} of=${app.problem} /><p>Run <code>billhook ui</code> in a terminal: its link works once.</p></div>`
      : View && html`<${View} key=${app.view} app=${app} />`}</main>
    <dialog aria-labelledby="keys-title"><h2 id="keys-title">Keyboard</h2>
      <dl>${KEYS.map(([keys, text]) => html`<dt>${keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</dt>
        <dd>${text}</dd>`)}</dl>
      <form method="dialog"><button>Close</button></form></dialog>
    <div class="hidden" aria-live="polite">${app.announced}</div>`;
}

// -- login and news

async function begin() {
  const code = /^#code=([\w-]+)$/.exec(location.hash);
  if (code) {
    history.replaceState(null, "", location.pathname); // before anything else sees the address
    await post("login", { code: code[1] }).catch(() => {});
  }
  try {
    await refresh();
  } catch (problem) {
    return set({ problem });
  }
  listen(hear, (state) => set({ state }));
  addEventListener("hashchange", route);
  route();
}

async function refresh() {
  const found = await get("now");
  const sessions = new Map(found.sessions.map((one) => [`${one.project}\n${one.session}`, one]));
  found.projects.forEach(know);
  set({ sessions, questions: found.questions });
}

async function hear(found) {
  if (found.missed) await refresh();
  [...(found.rows || [])].reverse().forEach(add);
  set(found.questions ? { questions: found.questions } : {});
  app.hear?.(found);
}

function add(row) {
  const key = `${row.project}\n${row.session}`;
  const { session, project, host } = row;
  const none = { session, project, host, events: 0, denied: 0, asked: 0, failed: 0 };
  const one = app.sessions.get(key) || none;
  app.sessions.set(key, { ...one, events: one.events + 1, denied: one.denied + (row.decision === "deny"),
    asked: one.asked + (row.decision === "ask"), failed: one.failed + row.failed, name: row.name || one.name,
    turn: row.turn || one.turn, last: row });
  know(row.project);
}

function know(project) {
  if (project && !app.projects.includes(project)) app.projects.push(project);
  app.project ||= project;
}

// -- views

function route() {
  const [name, query] = location.hash.replace(/^#\/?/, "").split("?");
  const fields = Object.fromEntries(new URLSearchParams(query || ""));
  know(fields.project);
  set({ view: VIEWS[name] ? name : "now", fields, project: fields.project || app.project });
}

/** Show a view with other fields, without another step in the history. */
function go(fields) {
  history.replaceState(null, "", address(app.view, { project: app.project, ...fields }));
  route();
}

// -- keyboard

const help = () => find("dialog").showModal();

function step(by) {
  const rows = [...document.querySelectorAll("main [data-row]")].filter((row) => row.offsetParent);
  const at = rows.indexOf(document.activeElement.closest("[data-row]"));
  rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + by))]?.focus();
}

addEventListener("keydown", (event) => {
  const isWriting = event.target.matches("input, textarea, select");
  if (event.key === "Escape" && isWriting) event.target.blur();
  if (isWriting || event.ctrlKey || event.metaKey || event.altKey || find("dialog[open]")) return;
  const name = Object.keys(VIEWS)[Number(event.key) - 1];
  const close = () => find("[data-close]")?.click();
  const search = () => (find("input[type=search]") || { focus() { location.hash = "#/timeline?find=1"; } }).focus();
  const keys = { j: () => step(1), k: () => step(-1), "?": help, "/": search, Escape: close };
  const act = name ? () => { location.hash = `#/${name}`; } : keys[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

set({});
begin();
