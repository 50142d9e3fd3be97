"""Address streams in files: our own stored ones and those of other tools."""
