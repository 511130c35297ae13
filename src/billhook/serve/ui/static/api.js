// Requests to the daemon.

class Problem extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.hint = error.hint;
  }
}

async function answered(response) {
  const value = await response.json().catch(() => ({}));
  if (!response.ok) throw new Problem(response.status, value.error || { message: `HTTP ${response.status}` });
  return value;
}

export async function get(name, query = {}, signal = undefined) {
  const fields = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return answered(await fetch(`/ui/api/${name}?${new URLSearchParams(fields)}`, { signal }));
}

export async function post(path, body) {
  const headers = { "content-type": "application/json" };
  return answered(await fetch(`/ui/${path}`, { method: "POST", headers, body: JSON.stringify(body) }));
}

export const command = (name, project, id = "") => get("command", { name, project, id });

/** Call `news` with what is new; `state` with "live" or "offline". */
export function listen(news, state) {
  const source = new EventSource("/ui/api/live");
  source.addEventListener("open", () => state("live"));
  source.addEventListener("news", (event) => news(JSON.parse(event.data)));
  source.addEventListener("dropped", () => news({ rows: [], missed: true }));
  source.addEventListener("error", () => state("offline"));
}
