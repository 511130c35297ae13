"""Hooks that ship with billhook: the guard, trackers, rate limits, metrics.

Imports: core, effects, store.
"""
