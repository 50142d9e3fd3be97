"""Child processes of a traced program, and signals meant for it."""
