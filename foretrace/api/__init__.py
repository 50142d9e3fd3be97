"""The Python API: one function a verb, and results that show themselves in a terminal or a notebook."""
