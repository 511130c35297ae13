"""The five seeds, one file each: their examples and every line of their tables."""
