"""Vector operations for every array library, random probes, compiled kernels and threads."""
