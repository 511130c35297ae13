"""`python -m billhook`."""

from billhook.cli.main import main

main()
