"""Installing into agents, and out of them again."""
