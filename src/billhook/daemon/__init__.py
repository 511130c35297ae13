"""The daemon that keeps engines warm, and the client that agents run: `billhook-hook`."""
