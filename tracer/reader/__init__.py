"""The reading side of the address stream: words become accesses for simulators, and counts of what ran."""
