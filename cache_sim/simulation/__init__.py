"""The C core: LRU hierarchies simulated in batches, and access statistics."""
