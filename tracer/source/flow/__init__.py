"""Data flow of the source form: normal loops, what each iteration computes from what, subscripts and dependences."""
