// Insights: counts over the newest events of the log, as small charts.

import { command } from "./api.js";
import { h, ms, number, plural, projectView, svg, table } from "./dom.js";

const DECISIONS = ["none", "allow", "ask", "defer", "deny"];
const WIDTH = 640;
const HEIGHT = 120;

export const insights = (main, app) => projectView(main, app, "Insights", async (project) => {
  const [found] = await command("summary", project);
  const ran = found.hooks.filter((one) => one.runs && one.name !== "approvals"); // that is the wait for a person
  const slow = ran.map((one) => ({ name: one.name, value: one.p95, text: ms(one.p95) }));
  const failing = ran.filter((one) => one.failures).sort((a, b) => b.failures - a.failures)
    .map((one) => ({ name: one.name, value: one.failures, text: `${number(one.failures)} of ${number(one.runs)}` }));
  const added = found.tools.map((one) => ({ name: one.tool, value: one.p95, text: `${ms(one.p50)} / ${ms(one.p95)}` }));
  const denied = found.denied.map((one) => [one.tool, h("code", {}, one.text), number(one.count)]);
  return [h("p", { class: "muted" },
    `${plural(found.events, "event")}${found.complete ? "" : ", the newest in the log"}`),
    h("div", { class: "cards" },
      card("Decisions per day", days(found.days), "wide"),
      card("Slowest hooks (p95)", bars(slow)),
      card("Failing hooks", bars(failing, "No hook failed.")),
      card("Time added per tool event (p50 / p95)", bars(added)),
      card("Most denied", table("Most denied calls", ["Tool", "Call", "#Denied"], denied, "Nothing was denied."),
        "wide"))];
});

const card = (title, content, size = "") => h("section", { class: `card ${size}` }, h("h2", {}, title), content);

function bars(rows, empty = "Nothing so far.") {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  const most = Math.max(...rows.map((one) => one.value || 0)) || 1;
  const box = { viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" };
  return h("ul", { class: "bars" }, rows.slice(0, 8).map((one) => {
    const width = Math.max(0.5, (100 * (one.value || 0)) / most);
    return h("li", {}, h("span", { class: "name" }, one.name), svg("svg", box, svg("rect", { width, height: 6 })),
      h("span", { class: "n" }, one.text));
  }));
}

function days(found) {
  if (!found.length) return h("p", { class: "empty" }, "Nothing so far.");
  const sum = (day) => DECISIONS.reduce((total, name) => total + (day[name] || 0), 0);
  const most = Math.max(...found.map(sum));
  const step = WIDTH / Math.max(14, found.length);
  const columns = found.map((day, at) => {
    let y = HEIGHT;
    const parts = DECISIONS.filter((name) => day[name]).map((name) => {
      const height = Math.max(name === "none" ? 0 : 2, (HEIGHT * day[name]) / most);
      y -= height;
      return svg("rect", { class: name, x: at * step + 1, y: Math.max(0, y), width: Math.max(1, step - 3), height });
    });
    const text = DECISIONS.filter((name) => day[name]).map((name) => `${name} ${number(day[name])}`).join(", ");
    return svg("g", {}, svg("title", {}, `${day.day}: ${text}`), parts);
  });
  const legend = h("p", { class: "legend" }, DECISIONS.map((name) =>
    [h("i", { class: name }), name === "none" ? "no objection" : name]));
  const label = `Decisions per day from ${found[0].day} to ${found.at(-1).day}, at most ${number(most)} a day`;
  return h("div", {}, svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label,
    preserveAspectRatio: "none", class: "days" }, columns),
    h("p", { class: "axis" }, h("span", {}, found[0].day), h("span", {}, found.at(-1).day)), legend);
}
