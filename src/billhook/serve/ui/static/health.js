// Health: what `billhook doctor` finds.

import { command } from "./api.js";
import { ago, h, projectView } from "./dom.js";

const LEVELS = { ok: "allow", warn: "ask", fail: "deny", note: "defer" };

export const health = (main, app) => projectView(main, app, "Health", async (project) => {
  const [found] = await command("doctor", project);
  return [h("p", { class: "muted" }, `billhook ${found.version}`),
    found.agents.length ? null : h("p", { class: "empty" }, "No coding agent calls billhook here."),
    found.agents.map((one) => part(one.title, one.findings)),
    part("billhook itself", [...found.daemon, ...found.guard])];
});

const part = (title, findings) =>
  h("section", {}, h("h2", {}, title), h("ul", { class: "findings" }, findings.map(finding)));

function finding(one) {
  const text = h("span", {}, h("strong", {}, `${one.about}  `), timed(one.text),
    one.remedy && h("small", {}, `→ ${one.remedy}`));
  return h("li", {}, h("span", { class: `badge ${LEVELS[one.level] || ""}` }, one.level), text);
}

/** A time in a finding, in words. */
const timed = (text) => text.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/, ago);
