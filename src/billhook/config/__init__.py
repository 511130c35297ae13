"""Hooks from files: which files there are, what they declare, what may run."""
