"""Norms that stand where a host's LayerNorm or RMSNorm stood, so that a ciphertext can pay for them."""
