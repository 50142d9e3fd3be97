"""The kernels of the micro-benchmarks, in C."""
