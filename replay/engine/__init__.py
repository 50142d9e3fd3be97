"""The discrete-event engine: ranks, cores and accelerators in SimPy's time."""
