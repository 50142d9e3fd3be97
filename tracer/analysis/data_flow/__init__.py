"""Data flow: which node uses whose bytes, and what loops carry from one iteration to the next."""
