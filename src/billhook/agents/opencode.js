// Lets billhook judge what OpenCode does. Written by `billhook install opencode`, which overwrites changes.
import { spawn } from "node:child_process"

const settings = {}
// end of settings

const run = (entry, payload) =>
  new Promise((resolve) => {
    const child = spawn("sh", ["-c", entry.command], { cwd: payload.cwd, detached: true })
    const said = { code: null, out: "", err: "" }
    const end = (code) => (clearTimeout(timer), resolve({ ...said, code }))
    const timer = setTimeout(() => {
      try { process.kill(-child.pid, "SIGKILL") } catch {}
      said.err ||= `no answer within ${entry.timeout} seconds`
      end(null)
    }, entry.timeout * 1000)
    child.stdout?.setEncoding("utf8").on("data", (text) => (said.out += text))
    child.stderr?.setEncoding("utf8").on("data", (text) => (said.err += text))
    child.on("error", (error) => ((said.err ||= error.message), end(null))).on("close", end)
    child.stdin?.on("error", () => {}).end(JSON.stringify(payload))
  })

const ask = async (event, payload) => {
  let answer = {}
  for (const entry of settings.hooks?.[event] ?? []) {
    const { code, out, err } = await run(entry, { hook_event_name: event, ...payload })
    try {
      answer = code === 0 ? JSON.parse(out.trim() || "{}") : { failed: true }
    } catch {
      answer = { failed: true }
    }
    const inside = answer.hookSpecificOutput ?? {}
    if (inside.permissionDecision === "deny") throw new Error(inside.permissionDecisionReason)
    if (answer.decision === "block") throw new Error(answer.reason)
    if (code === 2 || (answer.failed && entry.failClosed)) throw new Error(err.trim() || "billhook failed")
  }
  return answer.hookSpecificOutput ?? {}
}

export const Billhook = async ({ directory }) => {
  const about = (input) => ({ session_id: input.sessionID, cwd: directory })
  const call = (input, args) => ({ ...about(input), tool_name: input.tool, tool_use_id: input.callID, tool_input: args })
  let events = Promise.resolve()
  return {
    event: async ({ event: { type, properties } }) => {
      if (!settings.hooks?.[type] || properties.info?.parentID) return
      const id = properties.sessionID ?? properties.info?.id
      events = events.then(() => ask(type, { ...about({ sessionID: id }), source: "startup" })).catch(() => {})
      await events
    },
    "chat.message": async (input, output) => {
      await events
      const text = output.parts.findLast((part) => part.type === "text")
      const said = await ask("chat.message", { ...about(input), prompt: text?.text ?? "" })
      if (said.additionalContext && text) text.text += "\n\n" + said.additionalContext
    },
    "tool.execute.before": async (input, output) => {
      const { updatedInput } = await ask("tool.execute.before", call(input, output.args))
      if (!updatedInput) return
      for (const key of Object.keys(output.args)) delete output.args[key] // another object would be ignored
      Object.assign(output.args, updatedInput)
    },
    "tool.execute.after": async (input, output) => {
      const payload = { ...call(input, input.args), tool_response: output.output }
      const said = await ask("tool.execute.after", payload)
      if (said.updatedToolOutput !== undefined) output.output = said.updatedToolOutput
      if (said.additionalContext) output.output += "\n\n" + said.additionalContext
    },
  }
}
