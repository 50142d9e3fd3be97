"""Accelerators: what a node of a program costs on one, by its work, its demand and the evidence that it is parallel."""
