"""Data flow: which node of the execution tree uses whose bytes, followed while the stream is read."""
