"""Address streams kept in files: foretrace's own format and those of other tools."""
