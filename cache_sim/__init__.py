"""From an address stream to hit rates, address ranges and reuse distances."""
