"""Rules under test: cases in a scratch copy, coverage and mutants, replay of past events.

Imports: core, effects, agents, engine, runners, store, builtins, config.
"""
