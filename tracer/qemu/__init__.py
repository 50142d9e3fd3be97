"""Tracing binaries: a QEMU plugin that records, and the commands that run it."""
