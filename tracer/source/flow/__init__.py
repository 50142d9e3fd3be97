"""Data flow of the source form: loops in normal shape, effects of each iteration, subscripts and dependences."""
