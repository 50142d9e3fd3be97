"""Tracing Python programs: the agent inside the interpreter and the meaning of its records."""
