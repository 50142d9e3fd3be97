"""Source code: C, C++, Fortran and Python lowered to one form of loops and assignments, and what can be read off it."""
