"""Sweeps: many runs on many machines under many changes, on many processes, resumable."""
