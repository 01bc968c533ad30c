"""Workloads in the shape of the FHE benchmarking suite: stages as processes, files between them, and a verdict."""
