"""The tools of the agent loop: real commands, real files, and paths that try to get out."""
