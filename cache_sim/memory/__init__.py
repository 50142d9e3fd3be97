"""Memory systems beyond LRU, simulated one access at a time: policies, prefetchers, TLBs, several cores."""
