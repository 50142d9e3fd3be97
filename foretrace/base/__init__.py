"""Leaves: errors, files, names, units, terminal text and JSON, which all parts use."""
