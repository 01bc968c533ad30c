"""Softmaxes on ciphertexts: layouts, circuits, what they need, and the party that runs them."""
