"""Questions that wait for a person: the queue on disk, the wait for an answer, channels, and signed links.

Imports: core, runners, store.
"""
