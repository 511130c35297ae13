"""Files on disk: state, sessions, the event log and its queries, redaction, approvals.

Imports: core.
"""
