// Now: the questions that wait, and the recent sessions.
import { post } from "./api.js";
import { address, ago, Badge, base, Failure, inside, number, plural } from "./parts.js";
import { html, useEffect, useReducer, useState } from "./preact.js";

const LATE = "denied without an answer; an allow still counts if the agent repeats the call";
const SECONDS = 900; // in which a late answer counts

export function Now({ app }) {
  const [, tick] = useReducer((count) => count + 1, 0);
  useEffect(() => {
    const timer = setInterval(tick, 1000);
    return () => clearInterval(timer);
  }, []);
  const isOpen = (one) => ["waiting", "late"].includes(one.state) && one.until + SECONDS > Date.now() / 1000;
  const open = app.questions.filter(isOpen);
  const done = app.questions.filter((one) => one.answer).reverse();
  const asks = (one) => open.filter((its) => its.session === one.session && its.project === one.project).length;
  const sessions = [...app.sessions.values()].sort((a, b) => (a.last.time < b.last.time ? 1 : -1));
  return html`<h1 class="hidden">Now</h1>
    <section aria-labelledby="questions" hidden=${!open.length && !done.length}>
      <h2 id="questions">${plural(open.length, "question")}</h2>
      ${open.map((one) => html`<${Question} key=${one.id} one=${one} app=${app} />`)}
      ${done.map((one) => html`<p class="answered" key=${one.id}><${Badge} of=${one.answer} /><code>${one.call}</code>
        ${` by ${one.by || "someone"} (${one.via})`}</p>`)}
    </section>
    <section aria-labelledby="sessions">
      <h2 id="sessions">${plural(sessions.length, "session")}<span class="muted"> in the last 24 hours</span></h2>
      ${sessions.length ? html`<ul class="sessions">${sessions.map((one) =>
        html`<${Session} key=${`${one.project}\n${one.session}`} one=${{ ...one, waiting: asks(one) }} />`)}</ul>`
        : html`<div class="blank"><p>No events yet.</p><p><code>billhook install claude</code> adds billhook to an
          agent; <code>billhook doctor</code> shows whether it is called.</p></div>`}
    </section>`;
}

function Question({ one, app }) {
  const [why, setWhy] = useState("");
  const [isSent, setSent] = useState(false);
  const [problem, setProblem] = useState(null);
  async function answer(allow) {
    setSent(true);
    try {
      await post("api/answer", { id: one.id, allow, why: allow ? "" : why });
      app.announce(allow ? "Allowed" : "Denied");
      document.getElementById("main").focus();
    } catch (error) {
      setProblem(error);
      setSent(false);
    }
  }
  const left = one.until - Date.now() / 1000;
  const clock = `${Math.floor(left / 60)}:${String(Math.floor(left % 60)).padStart(2, "0")} left`;
  return html`<article class="question" tabindex="-1" data-row aria-label="Question: ${one.call}">
    <header><strong>${one.agent}</strong> asks to run <strong>${one.tool || one.event}</strong> in ${base(one.project)}
      <span class="grow"></span><time class="left">${left > 0 ? clock : LATE}</time></header>
    <pre tabindex="0" role="group" aria-label="The call">${one.call}${one.content && `\n${one.content}`}</pre>
    <p class="reason">${one.reason}<span class="muted">${one.hooks.length > 0 && ` (${one.hooks.join(", ")})`}
      ${left > 0 && one.hint && html`<small>hint: ${one.hint}</small>`}</span></p>
    <div class="answer">
      <button type="button" class="allow" disabled=${isSent} onClick=${() => answer(true)}>Allow once</button>
      <input type="text" placeholder="Reason for a denial (optional)" aria-label="Reason for a denial" maxlength="500"
        value=${why} onInput=${(event) => setWhy(event.target.value)} />
      <button type="button" class="deny" disabled=${isSent} onClick=${() => answer(false)}>Deny</button>
    </div>${problem && html`<${Failure} of=${problem} />`}</article>`;
}

function Session({ one }) {
  const facts = ["waiting", "denied", "asked", "failed"].filter((fact) => one[fact]);
  const link = address("timeline", { project: one.project, session: one.session });
  return html`<li><a class="session" data-row href=${link}>
    <span class="who"><strong>${one.name || one.session.slice(0, 8) || "no session"}</strong>
      <span class="muted"> ${one.host}</span></span>
    <span class="where muted" title=${one.project}>${base(one.project)}</span>
    <span class="turn muted">${one.turn && `turn ${one.turn}`}</span>
    <span class="what"><span class="tool">${one.last.tool || one.last.event}</span>
      <span class="text"> ${inside(one.last)}</span></span>
    <${Badge} of=${one.last.decision} />
    <span class="facts">${plural(one.events, "event")}${facts.map((fact) =>
      html`<em class=${fact}>${number(one[fact])} ${fact}</em>`)}</span>
    <time class="muted" datetime=${one.last.time}>${ago(one.last.time)}</time></a></li>`;
}
