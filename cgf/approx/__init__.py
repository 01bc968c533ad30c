"""Approximations of exp, 1/x and roots: numpy in, coefficients out."""
