const about = (ctx) => ({ session_id: ctx.sessionId ?? ctx.sessionKey, cwd: ctx.workspaceDir ?? process.cwd() })
const call = (event, ctx) => ({
  ...about(ctx), tool_name: event.toolName, tool_use_id: event.toolCallId, tool_input: event.params,
  tool_response: shown(event.result?.content) ?? event.result, tool_result_is_error: event.result && event.result.details?.status === "error",
})

export default {
  id: "billhook",
  name: "billhook",
  description: "Runs billhook's hooks.",
  register(api) {
    const seconds = Math.max(0, ...(settings.hooks?.before_tool_call ?? []).map((entry) => entry.timeout))
    const before = async (event, ctx) => {
      try {
        const answer = await check("before_tool_call", call(event, ctx))
        const asked = { title: "billhook", description: answer.permissionDecisionReason, severity: "warning" }
        return {
          ...(answer.updatedInput && { params: answer.updatedInput }),
          ...(answer.permissionDecision === "ask" && { requireApproval: asked }),
        }
      } catch (error) {
        return { block: true, blockReason: error.message }
      }
    }
    api.on("before_tool_call", before, { priority: -1000, timeoutMs: (seconds + 5) * 1000 }) // last: it judges what runs
    api.on("after_tool_call", (event, ctx) => check("after_tool_call", call(event, ctx)).catch(() => {}))
  },
}
