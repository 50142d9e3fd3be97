"""Loops as the text has them: found by their keywords, whether or not a front end understands what is around them."""
