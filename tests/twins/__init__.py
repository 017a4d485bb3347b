"""What only tests and benchmarks run: plain twins of kernels, exact enumeration, simulators."""
