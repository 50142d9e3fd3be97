"""The source form: its records, its text and JSON, and how passes walk over it."""
