"""C and C++: libclang parses, the functions are lowered to the source form."""
