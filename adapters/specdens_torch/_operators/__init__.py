"""The curvature operators, their duals and runs in lockstep."""
