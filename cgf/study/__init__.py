"""Experiments: runs that build on each other, their seeds, and the rows that come of them."""
