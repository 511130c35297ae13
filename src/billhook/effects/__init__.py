"""What a tool call would do: the shell reader, permission rules, and one table for each family of programs.

Imports: core.
"""
