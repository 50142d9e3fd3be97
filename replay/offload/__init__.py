"""Offload: what a loop costs on an accelerator, and which loops to port."""
