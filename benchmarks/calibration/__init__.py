"""Micro-benchmarks of this machine, and the profile made from them."""
