"""Activations that stand where a host's GELU, SiLU or ReLU stood: polynomials, which a ciphertext can pay for."""
