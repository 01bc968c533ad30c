"""What a client and a server agree on before anything is encrypted, and the two folders that say so."""
