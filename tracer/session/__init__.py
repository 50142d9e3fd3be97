"""A traced run while it lasts: what to start, how, and the loop that reads its stream."""
