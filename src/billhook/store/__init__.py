"""What billhook keeps on disk: approvals, later state and the event log. Directories 0700, files 0600, no symlinks."""
