"""The resources of a machine that jobs share in a simulation: cores, caches, memory bandwidth and accelerators."""
