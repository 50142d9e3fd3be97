"""Tracing Python programs: the agent inside the interpreter and what its records mean."""
