"""Softmaxes, one definition a file, and the contract that all of them keep."""
