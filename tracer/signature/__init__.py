"""The application signature: its typed records and its file."""
