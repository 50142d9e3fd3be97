"""The memory model: hit rates, latencies, bandwidths, address translation and page faults."""
