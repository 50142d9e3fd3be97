"""Fortran, fixed and free form, lowered to the source form. Parsed by tree-sitter, which goes on behind errors."""
