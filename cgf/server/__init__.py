"""The server of an encrypted network: it computes on what clients send, and holds no key that decrypts."""
