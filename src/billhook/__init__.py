"""billhook: the hook system for AI agents."""
