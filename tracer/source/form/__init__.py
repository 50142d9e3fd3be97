"""The source form: its records, its text, and how passes walk over it."""
