"""The agent loop that ships with billhook: small enough to read in one sitting, and every lifecycle event happens.

Start with `loop`; `docs/agent-loop.md` shows the same as a diagram, name by name.
"""
