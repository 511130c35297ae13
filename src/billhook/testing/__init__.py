"""Rules under test: cases in a scratch copy, coverage and mutants, replay of past events, reports of shadow mode.

Imports: core, effects, agents, engine, runners, store, builtins, config.
"""
