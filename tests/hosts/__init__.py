"""Installing billhook in agents, uninstalling it, and the doctor."""
