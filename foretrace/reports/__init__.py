"""Reports of the commands: tables, charts, pictures."""
