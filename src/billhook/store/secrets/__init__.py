"""Recognising secrets: by name, by shape, in assignments and in commands."""
