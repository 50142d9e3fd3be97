"""Shared parts of measurements: programs, repeated timing, machine facts."""
