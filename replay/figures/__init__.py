"""A machine's figures as the model uses them: each fast, typical and slow."""
