export const Billhook = async ({ directory }) => {
  const about = (input) => ({ session_id: input.sessionID, cwd: directory })
  const call = (input, args) => ({ ...about(input), tool_name: input.tool, tool_use_id: input.callID, tool_input: args })
  let events = Promise.resolve()
  return {
    event: async ({ event: { type, properties } }) => {
      if (!settings.hooks?.[type] || properties.info?.parentID) return
      const id = properties.sessionID ?? properties.info?.id
      events = events.then(() => check(type, { ...about({ sessionID: id }), source: "startup" })).catch(() => {})
      await events
    },
    "chat.message": async (input, output) => {
      await events
      const text = output.parts.findLast((part) => part.type === "text")
      const answer = await check("chat.message", { ...about(input), prompt: text?.text ?? "" })
      if (answer.additionalContext && text) text.text += "\n\n" + answer.additionalContext
    },
    "tool.execute.before": async (input, output) => {
      const { updatedInput } = await check("tool.execute.before", call(input, output.args))
      if (updatedInput) rewrite(output.args, updatedInput)
    },
    "tool.execute.after": async (input, output) => {
      const answer = await check("tool.execute.after", { ...call(input, input.args), tool_response: output.output })
      if (answer.updatedToolOutput !== undefined) output.output = answer.updatedToolOutput
      if (answer.additionalContext) output.output += "\n\n" + answer.additionalContext
    },
  }
}
