"""Native runs: how long a program takes on this machine, and where in its code the time goes."""
