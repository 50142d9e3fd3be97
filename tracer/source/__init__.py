"""Source analysis: C, C++, Fortran and Python lowered to one form of loops and assignments, and analyses of it."""
