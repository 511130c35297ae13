// Health: what `billhook doctor` finds.

import { command } from "./api.js";
import { ago, failure, h, loading } from "./dom.js";

const LEVELS = { ok: "allow", warn: "ask", fail: "deny", note: "defer" };

export function health(main, app) {
  let project = "";
  async function draw() {
    project = app.project;
    main.replaceChildren(h("h1", { class: "hidden" }, "Health"), loading("Examining …"));
    if (!project) return main.replaceChildren(h("p", { class: "empty" }, "No project has events yet."));
    let found;
    try {
      [found] = await command("doctor", project);
    } catch (error) {
      return main.replaceChildren(failure(error));
    }
    if (project !== app.project || !main.classList.contains("health")) return;
    main.replaceChildren(h("h1", { class: "hidden" }, "Health"),
      h("p", { class: "muted" }, `billhook ${found.version} in ${found.project}`),
      ...(found.agents.length ? [] : [h("p", { class: "empty" }, "No coding agent calls billhook here.")]),
      ...found.agents.map((one) => part(one.title, one.findings)),
      part("billhook itself", [...found.daemon, ...found.guard]));
  }
  draw();
  return { update: () => app.project !== project && draw() };
}

const part = (title, findings) => h("section", {}, h("h2", {}, title), h("ul", { class: "findings" }, findings.map((one) =>
  h("li", {}, h("span", { class: `badge ${LEVELS[one.level] || ""}` }, one.level), h("span", {}, h("strong", {}, `${one.about}  `), timed(one.text), one.remedy ? h("small", {}, `→ ${one.remedy}`) : null)))));

/** A time in a finding, in words. */
const timed = (text) => text.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/, ago);
