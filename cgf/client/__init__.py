"""The client of an encrypted network: it makes the keys, encrypts samples, and decrypts logits."""
