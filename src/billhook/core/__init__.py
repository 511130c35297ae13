"""The vocabulary: events, answers, verdicts and how they fold, hooks, matching, canonical tools, strict JSON, errors.

Imports: no other room.
"""
