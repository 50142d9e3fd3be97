"""Replay of parallel runs: ranks that compute, send messages and share the machine."""
