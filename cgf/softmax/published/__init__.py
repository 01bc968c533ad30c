"""The ways that others compute softmax, or replace it, under CKKS."""
