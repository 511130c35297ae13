// Elements and words. Text from hooks and agents becomes text nodes, never HTML.

const SVG = "http://www.w3.org/2000/svg";
const LOCAL = /^#\//; // links lead to views of this page only

/** An element. Values of `on...` are listeners, `true` is an attribute without a value, null and false are left out. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Replace the content of an element; null and false are left out. */
export function fill(element, ...children) {
  element.replaceChildren();
  return filled(element, {}, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name !== "href" || LOCAL.test(value)) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false));
  return element;
}

export function announce(text) {
  document.getElementById("announcement").textContent = text;
}

export const badge = (decision) =>
  decision && decision !== "none" ? h("span", { class: `badge ${decision}` }, decision)
    : h("span", { class: "badge" }, "–");

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
  return value >= 10000 ? `${(value / 1000).toFixed(1)} s`
    : `${value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)} ms`;
}

export const number = (value) => (value ? value.toLocaleString("en") : "–");
export const plural = (count, thing) => `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : "s"}`;
/** The text of an event, with paths below the project as people write them. */
export const inside = (row) => (row.project ? row.text.replaceAll(`${row.project}/`, "") : row.text);
export const base = (path) => path.split("/").filter(Boolean).pop() || path;

/** A button that copies a command, and shows it. */
export function copyable(label, command) {
  const button = h("button", { type: "button", class: "copy", title: "Copy the command" }, "Copy");
  button.setAttribute("aria-label", `Copy: ${label}`);
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(command);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  return h("div", { class: "command" }, h("span", { class: "label" }, label), button, h("code", {}, command));
}

/** A table; cells are nodes or text. Columns whose title begins with `#` are numbers. */
export function table(caption, titles, rows, empty = "Nothing so far.") {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  const numeric = titles.map((title) => title.startsWith("#"));
  const head = titles.map((title, at) => h("th", { scope: "col", class: numeric[at] && "n" }, title.replace("#", "")));
  const body = rows.map((cells) => h("tr", {}, cells.map((cell, at) => h("td", { class: numeric[at] && "n" }, cell))));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "hidden" }, caption), h("thead", {}, h("tr", {}, head)),
      h("tbody", {}, body)));
}

export const section = (title, ...content) => h("section", {}, h("h3", {}, title), content);

/** A view of one project: `load` makes its content, again when another project is chosen. */
export function projectView(main, app, title, load) {
  let drawn = "";
  async function draw() {
    drawn = app.project;
    const mine = drawn;
    fill(main, h("h1", { class: "hidden" }, title), mine ? loading()
      : h("p", { class: "empty" }, "No project has events yet."));
    const content = mine && (await load(mine).catch((error) => [failure(error)]));
    if (content && mine === drawn && main.className === title.toLowerCase()) fill(main,
      h("h1", { class: "hidden" }, title), content);
  }
  draw();
  return { update: () => app.project !== drawn && draw() };
}

export const failure = (error) =>
  h("div", { class: "problem", role: "alert" }, h("strong", {}, error.message),
    error.hint ? h("p", {}, `hint: ${error.hint}`) : null);
export const loading = (text = "Loading …") => h("p", { class: "empty", role: "status" }, text);
