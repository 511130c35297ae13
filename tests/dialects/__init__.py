"""Each dialect against its seed or its reference, row by row."""
