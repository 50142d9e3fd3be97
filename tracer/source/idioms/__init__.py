"""Idioms: patterns of computation found in source, built-in ones and those of users."""
