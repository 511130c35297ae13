// Requests to the daemon, and its news.

async function answered(response) {
  const value = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error(`HTTP ${response.status}`), value.error);
  return value;
}

export async function get(name, query = {}, signal = undefined) {
  const fields = Object.entries(query).filter(([, value]) => value);
  return answered(await fetch(`/ui/api/${name}?${new URLSearchParams(fields)}`, { signal }));
}

export async function post(path, body) {
  const headers = { "content-type": "application/json" };
  return answered(await fetch(`/ui/${path}`, { method: "POST", headers, body: JSON.stringify(body) }));
}

export const command = (name, project, id = "") => get("command", { name, project, id });

/** Call `news` with what is new, and `state` with "live" or "offline". All tabs share the connection of one of them,
 * because a browser has at most six connections to a server. */
export function listen(news, state) {
  const channel = new BroadcastChannel("live");
  let mine = ""; // the state of our connection
  const told = { news, state, asked: () => mine && channel.postMessage(["state", mine]) };
  const tell = (kind, value) => {
    if (kind === "state") mine = value;
    told[kind](value);
    channel.postMessage([kind, value]);
  };
  channel.onmessage = ({ data: [kind, value] }) => told[kind](value);
  channel.postMessage(["asked"]);
  const connect = () => new Promise((end) => {
    const source = new EventSource("/ui/api/live");
    source.addEventListener("open", () => { tell("state", "live"); tell("news", { missed: true }); });
    source.addEventListener("news", (event) => tell("news", JSON.parse(event.data)));
    source.addEventListener("dropped", () => tell("news", { missed: true }));
    source.addEventListener("error", () => {
      tell("state", "offline");
      if (source.readyState !== EventSource.CLOSED) return; // it connects again by itself
      mine = "";
      end();
      setTimeout(compete, 3000);
    });
  });
  const compete = () => (navigator.locks ? navigator.locks.request("live", connect) : connect());
  compete();
}
