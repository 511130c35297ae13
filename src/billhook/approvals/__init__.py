"""Questions that wait for a person: the queue on disk, the wait for an answer, and the channels that report a question.

Imports: core, store.
"""
