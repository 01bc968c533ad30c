"""CKKS engines behind one protocol: the simulator, the libraries, and wrappers that count and compare."""
