"""The execution tree: calls and loops in their contexts, built while the stream is read."""
