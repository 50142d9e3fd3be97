"""From a running program to its application signature."""
