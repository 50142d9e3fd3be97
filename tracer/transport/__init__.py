"""The address stream between a traced program and foretrace: layout, writer, side table."""
