"""What makes a hook runnable: commands, processes, Python workers, HTTP endpoints.

Imports: core, agents.
"""
