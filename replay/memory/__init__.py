"""The memory model: hit rates, latencies and bandwidths."""
