"""Hooks that ship with billhook: self-protection, trackers, rate limits, metrics.

Imports: core, effects, store.
"""
