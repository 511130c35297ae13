"""Answering agents: the hook server, the daemon, its socket and HTTP interface, and the C client.

Imports: core, effects, agents, engine, runners, store, builtins, approvals, config.
"""
