"""One event in, one verdict out: the plan, the loop that runs its steps, background answers, observers.

Imports: core.
"""
