export default function billhook(amp) {
  const about = (event) => ({ session_id: event.thread?.id, cwd: amp.system?.workspaceRoot ?? process.cwd() })
  const call = (event) => ({
    ...about(event), tool_name: event.tool, tool_use_id: event.toolUseID, tool_input: event.input, tool_response: event.output,
  })
  amp.on("tool.call", async (event, ctx) => {
    try {
      const { permissionDecision, permissionDecisionReason: message } = await check("tool.call", call(event))
      if (permissionDecision !== "ask" || (await ctx.ui?.confirm({ title: "billhook", message }))) return { action: "allow" }
      return { action: "reject-and-continue", message }
    } catch (error) {
      return { action: "reject-and-continue", message: error.message }
    }
  })
  amp.on("tool.result", (event) => check("tool.result", call(event)).then(() => {}).catch(() => {}))
  amp.on("session.start", (event) => check("session.start", about(event)).then(() => {}).catch(() => {}))
}
