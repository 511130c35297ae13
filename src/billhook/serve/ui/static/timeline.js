// Timeline: the events of a project, newest first, with filters, and one event in full.
import { get } from "./api.js";
import { Detail } from "./event.js";
import { address, Badge, clock, Empty, Failure, inside, Loading, ms, plural } from "./parts.js";
import { Component, html } from "./preact.js";

const DECISIONS = ["deny", "ask", "allow", "defer", "none"];
const [EXACT, OTHERS] = [["session", "tool", "event"], ["text", "decision", "hook", "failed"]]; // the filters

/** Rows that were loaded together. They never change; only the open one is marked. */
class Chunk extends Component {
  shouldComponentUpdate(next) {
    return next.opened !== this.props.opened;
  }

  render({ rows, fields, opened, isNew }) {
    return html`<li class="chunk ${isNew && "new"}"><ol class="rows">${rows.map((row) => html`<li>
      <a class="row ${row.decision} ${row.failed && "failed"}" href=${address("timeline", { ...fields, id: row.id })}
        data-row data-id=${row.id} aria-current=${row.id === opened ? "true" : null}>
        <time datetime=${row.time}>${clock(row.time)}</time>
        <span class="event">${row.event}</span>
        <span class="what"><span class="tool">${row.tool}</span><span class="text"> ${inside(row)}</span></span>
        <${Badge} of=${row.decision} />
        <span class="hook">${row.by.join(", ") || (row.failed && "failed")}</span>
        <span class="ms">${ms(row.ms)}</span></a></li>`)}</ol></li>`;
  }
}

export class Timeline extends Component {
  seen = { tool: new Map(), event: new Map(), hook: new Map(), session: new Map() };

  /** The filter of the address: what the daemon gets. */
  get filter() {
    const { fields, project } = this.props.app;
    return { project, ...Object.fromEntries([...EXACT, ...OTHERS].map((name) => [name, fields[name]])) };
  }

  componentDidMount() {
    this.observer = new IntersectionObserver((entries) => entries.some((one) => one.isIntersecting) && this.next(),
      { rootMargin: "600px" });
    this.observer.observe(this.more);
    this.props.app.hear = (found) => this.fresh(found);
    this.componentDidUpdate();
  }

  componentWillUnmount() {
    this.observer.disconnect();
    this.wait?.abort();
    clearTimeout(this.timer);
    this.props.app.hear = null;
  }

  componentDidUpdate() {
    const { fields } = this.props.app;
    const filter = JSON.stringify(this.filter);
    if (filter !== this.loaded) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.load(), this.loaded ? 200 : 0); // not for each letter
      this.loaded = filter;
    }
    if (this.opened && !fields.id) document.querySelector(`[data-id="${CSS.escape(this.opened)}"]`)?.focus();
    this.opened = fields.id;
    if (fields.find) document.querySelector("input[type=search]").focus();
  }

  load() {
    this.wait?.abort();
    this.wait = new AbortController();
    Object.assign(this, { busy: false, before: "first", newest: 0 });
    this.setState({ chunks: [], problem: null });
    this.next();
  }

  /** Load the next page; also the one after it while the list is not filled. */
  async next() {
    if (this.busy || !this.before || !this.props.app.project) return;
    this.busy = true;
    const { wait, before } = this;
    try {
      const page = await get("events", { ...this.filter, before: before !== "first" && before }, wait.signal);
      this.before = page.before;
      await this.keep(page.rows, (chunks, chunk) => [...chunks, chunk]);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      this.before = 0;
      this.setState({ problem });
    }
    if (wait !== this.wait) return;
    this.busy = false;
    if (this.more.getBoundingClientRect().top < innerHeight + 600) this.next();
  }

  /** Add a chunk with `put`. Resolves when it is shown. */
  keep(rows, put, isNew = false) {
    for (const row of rows) {
      for (const name of ["tool", "event"]) if (row[name]) this.seen[name].set(row[name], row[name]);
      if (row.session) this.seen.session.set(row.session, row.name || row.session.slice(0, 8));
      for (const hook of row.hooks) this.seen.hook.set(hook, hook);
    }
    this.newest = Math.max(this.newest, ...rows.map((row) => row.seq));
    const chunk = { rows, isNew, fields: this.filter, key: rows[0]?.id };
    return new Promise((shown) => this.setState(({ chunks }) => ({ chunks: rows.length ? put(chunks, chunk) : chunks }),
      shown));
  }

  async fresh(found) {
    const { filter } = this;
    const matches = (row) => ["project", ...EXACT].every((name) => !filter[name] || row[name] === filter[name]);
    let rows = (found.rows || []).filter(matches);
    if (!rows.length && !found.missed) return;
    if (found.missed || OTHERS.some((name) => filter[name])) // the daemon has what was missed, and filters
      ({ rows } = await get("events", { ...filter, after: this.newest, limit: 200 }));
    rows = rows.filter((row) => row.seq > this.newest);
    const height = this.column.scrollHeight;
    await this.keep(rows, (chunks, chunk) => [chunk, ...chunks], true);
    if (this.column.scrollTop > 0) this.column.scrollTop += this.column.scrollHeight - height; // the reader stays there
  }

  render({ app }, { chunks = [], problem }) {
    const { id, find, ...fields } = app.fields;
    const close = () => { location.hash = address("timeline", { ...fields, project: app.project }); };
    return html`<h1 class="hidden">Timeline</h1>${this.form(app)}
      <div class="split ${id && "opened"}">
        <div class="column" ref=${(element) => { this.column = element; }}>
          <ol class="events" aria-label="Events">${chunks.map((chunk) => html`<${Chunk} ...${chunk}
            opened=${chunk.rows.some((row) => row.id === id) && id} />`)}</ol>
          <div class="more" ref=${(element) => { this.more = element; }}>${problem ? html`<${Failure} of=${problem} />`
            : this.before !== 0 && app.project ? html`<${Loading}>Searching older events …<//>`
              : html`<${Empty}>${chunks.length ? "The beginning of the log" : "No event matches."}<//>`}</div>
        </div>
        <aside class="pane" aria-label="Event" hidden=${!id}>
          ${id && html`<${Detail} key=${id} id=${id} app=${app} close=${close} />`}</aside>
      </div>`;
  }

  form({ fields, go }) {
    const change = (name) => (event) => {
      const { find, ...rest } = fields;
      go({ ...rest, [name]: event.target.type === "checkbox" ? event.target.checked && "true" : event.target.value });
    };
    const select = (name, label, all, known) => html`<select aria-label=${label} value=${fields[name] || ""}
      onChange=${change(name)}><option value="">${all}</option>${[...new Map([[fields[name], fields[name]], ...known])]
      .filter(([value]) => value).map(([value, text]) => html`<option value=${value}>${text}</option>`)}</select>`;
    const count = document.querySelectorAll(".row").length;
    return html`<form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <input type="search" placeholder="Search  /" aria-label="Search in events" value=${fields.text || ""}
        onInput=${change("text")} />
      ${select("decision", "Decision", "any decision", DECISIONS.map((one) => [one, one]))}
      ${select("tool", "Tool", "any tool", this.seen.tool)}
      ${select("event", "Event", "any event", this.seen.event)}
      <input type="text" list="hooks" placeholder="hook" aria-label="Hook" value=${fields.hook || ""}
        onInput=${change("hook")} /><datalist id="hooks">${[...this.seen.hook.keys()].map((one) =>
        html`<option value=${one} />`)}</datalist>
      ${select("session", "Session", "all sessions", this.seen.session)}
      <label class="check"><input type="checkbox" aria-label="A hook failed" checked=${Boolean(fields.failed)}
        onChange=${change("failed")} />failed</label>
      <span class="muted found" role="status">${plural(count, "event")}${this.before ? " so far" : ""}</span></form>`;
  }
}
