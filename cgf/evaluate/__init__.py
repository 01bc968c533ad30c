"""Evaluation of a checkpoint, in the clear and under CKKS."""
