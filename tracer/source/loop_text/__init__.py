"""Loops of the text, found by their keywords, whether or not a front end understands the code around them."""
