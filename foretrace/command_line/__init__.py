"""The command line's own parts: verbs and their limits, option types, interrupts."""
