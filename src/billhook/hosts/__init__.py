"""`billhook install`, `uninstall` and `doctor`: billhook's entries in the files of coding agents."""
