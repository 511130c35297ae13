"""Hooks that ship with billhook. Each file is also an example of how to write one."""
