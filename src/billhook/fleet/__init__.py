"""Many machines: one signed policy, one audit stream, shared limits and approvals, over NATS JetStream.

Imports: core, effects, agents, engine, runners, store, builtins, approvals, config.
"""
