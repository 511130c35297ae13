// Health: what `billhook doctor` finds.
import { command } from "./api.js";
import { ago, Empty, Findings, ProjectView } from "./parts.js";
import { html } from "./preact.js";

const TONES = { ok: "allow", warn: "ask", fail: "deny", note: "defer" };

export const Health = ({ app }) => html`<${ProjectView} title="Health" project=${app.project}
  load=${(project) => command("doctor", project)}>${([found]) => html`
    <p class="muted">billhook ${found.version}</p>
    ${!found.agents.length && html`<${Empty}>No coding agent calls billhook here.<//>`}
    ${found.agents.map((one) => part(one.title, one.findings))}
    ${part("billhook itself", [...found.daemon, ...found.guard])}`}<//>`;

const part = (title, findings) => html`<section><h2>${title}</h2><${Findings} of=${findings.map(finding)} /></section>`;

const finding = (one) => ({ badge: one.level, tone: TONES[one.level],
  text: html`<strong>${one.about}  </strong>${one.text.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/, ago)}`,
  more: [one.remedy && `→ ${one.remedy}`] });
