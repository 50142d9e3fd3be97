"""A program's nodes with their times on one machine, which threads, offloading, flame graphs and speed-up share."""
