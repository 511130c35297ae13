"""The agent loop that ships: models, tools, permissions, subagents, transcripts.

Imports: core, effects, engine, runners, store, config, session.
"""
