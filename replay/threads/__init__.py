"""Threads: their timeline programs from an execution tree, and where they wait for one another."""
