"""What a tool call would do: the shell reader, permission rules, and the tables of programs that change files.

Imports: core.
"""
