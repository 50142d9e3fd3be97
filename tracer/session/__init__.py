"""A traced run while it lasts: the program and its options, and the loop that reads its stream."""
