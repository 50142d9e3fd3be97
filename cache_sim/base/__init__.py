"""Records of caches: hierarchies, their levels, and results of simulations."""
