// The frame: login, views, live news, keyboard.

import { get, listen, post } from "./api.js";
import { base, failure, h } from "./dom.js";
import { health } from "./health.js";
import { hooks } from "./hooks.js";
import { insights } from "./insights.js";
import { now } from "./now.js";
import { timeline } from "./timeline.js";

const VIEWS = { now, timeline, hooks, insights, health };
const main = document.getElementById("main");
const picker = document.getElementById("project");
const app = { sessions: new Map(), questions: [], projects: [], project: "" };
let view = null;
let shown = "";

// -- login

async function begin() {
  const code = /^#code=([\w-]+)$/.exec(location.hash);
  if (code) {
    history.replaceState(null, "", location.pathname); // before anything else sees the address
    await post("login", { code: code[1] }).catch(() => {});
  }
  try {
    take(await get("now"));
  } catch (error) {
    main.replaceChildren(h("div", { class: "blank" }, h("h1", {}, "Not logged in"), failure(error),
      h("p", {}, "Run ", h("code", {}, "billhook ui"), " in a terminal: it prints a link that works once.")));
    return;
  }
  listen(news, state);
  addEventListener("hashchange", route);
  route();
}

function take(found) {
  app.sessions = new Map(found.sessions.map((one) => [`${one.project}\n${one.session}`, one]));
  app.questions = found.questions;
  for (const project of found.projects) known(project);
  badge();
}

function known(project) {
  if (!project || app.projects.includes(project)) return;
  app.projects.push(project);
  picker.append(h("option", { value: project, title: project }, base(project)));
  app.project ||= project;
}

// -- news

async function news(found) {
  if (found.missed) take(await get("now"));
  else for (const row of [...(found.rows || [])].reverse()) add(row);
  if (found.questions) app.questions = found.questions;
  badge();
  view?.news?.(found);
}

function add(row) {
  const key = `${row.project}\n${row.session}`;
  const zero = { events: 0, denied: 0, asked: 0, failed: 0, first: row.time };
  const one = app.sessions.get(key) || { ...zero, session: row.session, project: row.project, host: row.host };
  one.events += 1;
  one.denied += row.decision === "deny" ? 1 : 0;
  one.asked += row.decision === "ask" ? 1 : 0;
  one.failed += row.failed ? 1 : 0;
  app.sessions.delete(key);
  app.sessions.set(key, { ...one, name: row.name || one.name, turn: row.turn || one.turn, last: row });
  known(row.project);
}

function badge() {
  const waiting = app.questions.filter((one) => one.state === "waiting").length;
  document.title = `${waiting ? `(${waiting}) ` : ""}billhook`;
  document.getElementById("waiting").textContent = waiting || "";
}

function state(word) {
  const element = document.getElementById("state");
  element.className = `state ${word}`;
  element.textContent = word;
  element.title = word === "live" ? "New events appear at once"
    : "No connection to the daemon; `billhook ui` opens a new page";
}

// -- views

function route() {
  const [name, query] = location.hash.replace(/^#\/?/, "").split("?");
  const chosen = VIEWS[name] ? name : "now";
  const fields = Object.fromEntries(new URLSearchParams(query || ""));
  if (fields.project) known(fields.project);
  app.project = fields.project || app.project;
  picker.value = app.project;
  for (const tab of document.querySelectorAll("#tabs a"))
    tab.toggleAttribute("aria-current", tab.dataset.view === chosen);
  if (chosen === shown && view?.update) {
    view.update(fields);
    return;
  }
  view?.close?.();
  shown = chosen;
  main.replaceChildren();
  main.className = chosen;
  view = VIEWS[chosen](main, app, fields);
}

function tabs() {
  const names = Object.keys(VIEWS).map((name) => h("a", { href: `#/${name}`, "data-view": name },
    name[0].toUpperCase() + name.slice(1), name === "now" ? h("span", { id: "waiting", class: "count" }) : null));
  document.getElementById("tabs").append(...names);
}

picker.addEventListener("change", () => {
  app.project = picker.value;
  const target = shown === "now" ? "timeline" : shown;
  location.hash = `#/${target}?${new URLSearchParams({ project: picker.value })}`;
});

// -- keyboard

function step(by) {
  const rows = [...main.querySelectorAll("[data-row]")].filter((row) => row.offsetParent);
  const at = rows.indexOf(document.activeElement.closest("[data-row]"));
  rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + by))]?.focus();
}

addEventListener("keydown", (event) => {
  const writing = event.target.matches("input, textarea, select");
  if (event.key === "Escape" && writing) event.target.blur();
  if (writing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const name = Object.keys(VIEWS)[Number(event.key) - 1];
  const keys = {
    j: () => step(1),
    k: () => step(-1),
    "?": () => document.getElementById("keys").showModal(),
    "/": () => (main.querySelector("input[type=search]") ? main.querySelector("input[type=search]").focus()
      : (location.hash = "#/timeline?find=1")),
    Escape: () => view?.escape?.(),
  };
  const act = name ? () => { location.hash = `#/${name}`; } : keys[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
});

// -- dark and light

const root = document.documentElement;
function theme(word) {
  if (word) root.dataset.theme = word;
}
document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  localStorage.setItem("theme", dark ? "light" : "dark");
  theme(localStorage.getItem("theme"));
});
document.getElementById("help").addEventListener("click", () => document.getElementById("keys").showModal());
theme(localStorage.getItem("theme"));
tabs();
begin();
