// Runs billhook for OpenCode's events. Written by `billhook install opencode`, which overwrites changes.
import { spawn } from "node:child_process"

const settings = {}
// end of settings

const run = (entry, payload) =>
  new Promise((resolve) => {
    const child = spawn("sh", ["-c", entry.command], { cwd: payload.cwd, detached: true })
    const result = { code: null, out: "", err: "" }
    const end = (code) => (clearTimeout(timer), resolve({ ...result, code }))
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
      const answer = await ask("chat.message", { ...about(input), prompt: text?.text ?? "" })
      if (answer.additionalContext && text) text.text += "\n\n" + answer.additionalContext
    },
    "tool.execute.before": async (input, output) => {
      const { updatedInput } = await ask("tool.execute.before", call(input, output.args))
      if (!updatedInput) return
      for (const key of Object.keys(output.args)) delete output.args[key] // another object would be ignored
      Object.assign(output.args, updatedInput)
    },
    "tool.execute.after": async (input, output) => {
      const payload = { ...call(input, input.args), tool_response: output.output }
      const answer = await ask("tool.execute.after", payload)
      if (answer.updatedToolOutput !== undefined) output.output = answer.updatedToolOutput
      if (answer.additionalContext) output.output += "\n\n" + answer.additionalContext
    },
  }
}
