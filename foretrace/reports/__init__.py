"""What the commands print: tables, charts, pictures."""
