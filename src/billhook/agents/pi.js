export default function billhook(pi) {
  let continued = false
  const output = ({ content, isError }) => ({ tool_response: shown(content), tool_result_is_error: isError })
  const call = (event) => ({ tool_name: event.toolName, tool_use_id: event.toolCallId, tool_input: event.input, ...output(event) })
  const on = (name, fields, act = () => {}) =>
    settings.hooks?.[name] && pi.on(name, async (event, ctx) => {
      const about = { session_id: ctx.sessionManager.getSessionId(), transcript_path: ctx.sessionManager.getSessionFile?.(), cwd: ctx.cwd, has_ui: ctx.hasUI }
      return act(await check(name, { ...about, ...fields(event) }).catch((error) => ({ refusal: error.message })), event, ctx)
    })
  for (const name of ["session_start", "session_shutdown"]) on(name, ({ reason }) => ({ source: reason, reason }))
  on("input", ({ text }) => ({ prompt: text }), ({ refusal, additionalContext }, event, ctx) => {
    if (refusal) return (ctx.hasUI ? ctx.ui.notify(refusal, "error") : console.error(refusal)), { action: "handled" }
    if (additionalContext) return { ...event, action: "transform", text: `${event.text}\n\n${additionalContext}` }
  })
  on("tool_call", call, async ({ refusal, permissionDecision, permissionDecisionReason: why, updatedInput }, { input }, ctx) => {
    if (updatedInput) rewrite(input, updatedInput)
    const refused = permissionDecision === "ask" && !(ctx.hasUI && (await ctx.ui.confirm("billhook", why)))
    if (refusal || refused) return { block: true, reason: refusal ?? why }
  })
  on("tool_result", call, ({ updatedToolOutput: text, additionalContext }, { content }) => {
    const kept = text === undefined ? content : [{ type: "text", text }]
    return { content: additionalContext ? [...kept, { type: "text", text: additionalContext }] : kept }
  })
  on("agent_before_settle", () => ({ stop_hook_active: continued }), ({ refusal: content }) => {
    continued = Boolean(content)
    return content && { continue: true, entries: [{ type: "custom_message", customType: "billhook", content, display: true }] }
  })
}
