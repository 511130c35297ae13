"""The event log: one line per verdict, chained by hashes; queries, verification, repair."""
