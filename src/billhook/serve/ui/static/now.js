// Now: the questions that wait, and the recent sessions.

import { post } from "./api.js";
import { ago, announce, badge, base, failure, h, inside, number, plural } from "./dom.js";

const OPEN = ["waiting", "late"];

export function now(main, app) {
  const questions = h("section", { "aria-labelledby": "questions" });
  const sessions = h("section", { "aria-labelledby": "sessions" });
  main.append(h("h1", { class: "hidden" }, "Now"), questions, sessions);
  const cards = new Map();

  function drawQuestions() {
    questions.hidden = !app.questions.length;
    const open = app.questions.filter((one) => OPEN.includes(one.state) && one.until + 900 > Date.now() / 1000);
    const done = app.questions.filter((one) => one.answer).slice(-3).reverse();
    for (const one of open) if (!cards.has(one.id)) cards.set(one.id, card(one));
    for (const [id] of cards) if (!open.some((one) => one.id === id)) cards.delete(id);
    if (![...questions.children].some((one) => one.contains(document.activeElement)) || !open.length)
      questions.replaceChildren(...(open.length ? [h("h2", { id: "questions" }, plural(open.length, "question")),
        ...cards.values()] : []),
        ...done.map((one) => h("p", { class: "answered" }, badge(one.answer), h("code", {}, one.call),
          ` by ${one.by || "someone"} (${one.via})`)));
    tick();
  }

  function card(one) {
    const why = h("input", { type: "text", placeholder: "Reason for a denial (optional)",
      "aria-label": "Reason for a denial", maxlength: "500" });
    const problem = h("div", {});
    const allow = h("button", { type: "button", class: "allow", onclick: () => answer(true) }, "Allow once");
    const deny = h("button", { type: "button", class: "deny", onclick: () => answer(false) }, "Deny");
    async function answer(allowed) {
      allow.disabled = deny.disabled = true;
      try {
        await post("api/answer", { id: one.id, allow: allowed, why: allowed ? "" : why.value });
        announce(allowed ? "Allowed" : "Denied");
        document.getElementById("main").focus();
      } catch (error) {
        problem.replaceChildren(failure(error));
        allow.disabled = deny.disabled = false;
      }
    }
    return h("article", { class: "question", tabindex: "-1", "data-row": true, "data-until": one.until,
      "aria-label": `Question: ${one.call}` },
      h("header", {}, h("strong", {}, one.agent), " asks to run ", h("strong", {}, one.tool || one.event),
        ` in ${base(one.project)}`, h("span", { class: "grow" }), h("time", { class: "left" })),
      h("pre", { tabindex: "0", role: "group", "aria-label": "The call" }, one.call),
      h("p", { class: "reason" }, one.reason, one.hooks.length
        ? h("span", { class: "muted" }, ` (${one.hooks.join(", ")})`) : null),
      h("div", { class: "answer" }, allow, why, deny), problem);
  }

  function drawSessions() {
    const all = [...app.sessions.values()].sort((a, b) => (a.last.time < b.last.time ? 1 : -1));
    const focused = document.activeElement?.dataset?.key;
    const rows = all.map((one) => {
      const key = `${one.project}\n${one.session}`;
      const query = new URLSearchParams({ project: one.project, session: one.session });
      const facts = [one.denied && `${number(one.denied)} denied`, one.asked && `${number(one.asked)} asked`,
        one.failed && `${number(one.failed)} failed`];
      return h("li", {}, h("a", { class: "session", href: `#/timeline?${query}`, "data-row": true, "data-key": key },
        h("span", { class: "who" }, h("strong", {}, one.name || one.session.slice(0, 8) || "no session"),
          h("span", { class: "muted" }, ` ${one.host}`)),
        h("span", { class: "where muted", title: one.project }, base(one.project)),
        h("span", { class: "turn muted" }, one.turn ? `turn ${one.turn}` : ""),
        h("span", { class: "what" }, h("span", { class: "tool" }, one.last.tool || one.last.event), " ",
          h("span", { class: "text" }, inside(one.last))),
        badge(one.last.decision),
        h("span", { class: "facts" }, plural(one.events, "event"),
          facts.filter(Boolean).map((fact) => h("em", { class: fact.split(" ")[1] }, fact))),
        h("time", { class: "muted", datetime: one.last.time }, ago(one.last.time))));
    });
    sessions.replaceChildren(h("h2", { id: "sessions" }, plural(all.length, "session"),
      h("span", { class: "muted" }, " in the last 24 hours")),
      rows.length ? h("ul", { class: "sessions" }, rows) : h("div", { class: "blank" }, h("p", {}, "No events yet."),
        h("p", {}, h("code", {}, "billhook install claude"), " adds billhook to an agent; ",
          h("code", {}, "billhook doctor"), " shows whether it is called.")));
    if (focused) [...sessions.querySelectorAll("[data-key]")].find((one) => one.dataset.key === focused)?.focus();
  }

  function tick() {
    for (const one of questions.querySelectorAll("[data-until]")) {
      const left = Number(one.dataset.until) - Date.now() / 1000;
      const text = `${Math.floor(left / 60)}:${String(Math.floor(left % 60)).padStart(2, "0")} left`;
      one.querySelector(".left").textContent = left > 0 ? text
        : "denied by silence; an allow still counts if the agent repeats the call";
    }
    for (const one of sessions.querySelectorAll("time")) one.textContent = ago(one.getAttribute("datetime"));
  }

  drawQuestions();
  drawSessions();
  const timer = setInterval(tick, 1000);
  return {
    news(found) {
      if (found.questions || found.missed) drawQuestions();
      if (found.rows?.length || found.missed) drawSessions();
    },
    close: () => clearInterval(timer),
  };
}
