"""A program that uses the Claude Agent SDK and billhook: `sdk_agent.py PROMPT [SECONDS]`, the time for hooks."""

import asyncio
import os
import sys

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

from billhook.adapters.claude_agent_sdk import hooks


async def ask(prompt: str, seconds: float) -> str:
    """The last answer of Claude Code."""
    options = ClaudeAgentOptions(
        hooks=hooks(timeout=seconds, cwd=os.getcwd()),
        allowed_tools=["Bash", "Write", "Edit", "Read"],
        cwd=os.getcwd(),
        env={name: value for name, value in os.environ.items() if name.startswith(("ANTHROPIC_", "HOME"))},
        setting_sources=[],
    )
    said = ""
    async for message in query(prompt=prompt, options=options):
        if isinstance(message, ResultMessage):
            said = message.result or ""
    return said


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(ask(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 60)))
