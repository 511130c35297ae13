"""The command line: one module per verb, a folder for a verb that needs several.

Imports: every room.
"""
