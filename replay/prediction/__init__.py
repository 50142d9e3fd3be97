"""Run time of a signature's program on one core of a machine."""
