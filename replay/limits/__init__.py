"""The convolution: operations and accesses against the rates of a machine."""
