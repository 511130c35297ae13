"""The same hooks inside Python frameworks: one file for each, in process, over `billhook.session`.

    claude_agent_sdk    `hooks=` for ClaudeAgentOptions
    langchain           a middleware for create_agent
    openai_agents       judged agents and tools, run hooks
    pydantic_ai         a capability

Each takes an Engine, a list of hooks, or nothing: then what is configured where the program runs, so that one
`hooks.yaml` serves all of them. A framework is imported when its adapter is. `docs/adapters.md` says what each can do.
"""

from billhook.adapters.runs import BlockedError, StoppedError

__all__ = ["BlockedError", "StoppedError"]
