// Runs billhook for the events of AGENT. Written by `billhook install NAME`, which overwrites changes.
import { spawn } from "node:child_process"
const settings = {}
const run = (entry, payload) =>
  new Promise((resolve) => {
    const result = { code: null, out: "", err: "" }
    const end = (code) => (clearTimeout(timer), resolve({ ...result, code }))
    const child = spawn("sh", ["-c", entry.command], { cwd: payload.cwd, detached: true })
    const timer = setTimeout(() => {
      try { process.kill(-child.pid, "SIGKILL") } catch {}
      result.err ||= `no answer within ${entry.timeout} seconds`
      end(null)
    }, entry.timeout * 1000)
    child.stdout?.setEncoding("utf8").on("data", (text) => (result.out += text))
    child.stderr?.setEncoding("utf8").on("data", (text) => (result.err += text))
    child.on("error", (error) => ((result.err ||= error.message), end(null))).on("close", end)
    child.stdin?.on("error", () => {}).end(JSON.stringify(payload))
  })
// The answer to an event. Throws the reason if billhook objects, or fails before an action.
const check = async (event, payload) => {
  let answer = {}
  for (const entry of settings.hooks?.[event] ?? []) {
    const { code, out, err } = await run(entry, { hook_event_name: event, ...payload })
    try { answer = (code === 0 && JSON.parse(out.trim() || "{}")) || false } catch { answer = false }
    if (answer.decision === "block") throw new Error(answer.reason)
    if (code === 2 || (!answer && entry.failClosed)) throw new Error(err.trim() || "billhook failed")
  }
  return answer.hookSpecificOutput ?? {}
}
// The agent keeps its object: another one would be ignored.
const rewrite = (args, input) => (Object.keys(args).forEach((key) => delete args[key]), Object.assign(args, input))
const shown = (content) => content?.map((part) => part.text ?? `(${part.type})`).join("\n")
