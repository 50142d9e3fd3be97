"""Reuse distances: sampling them, and the hit rates of any cache they imply."""
