"""What circuits and training steps cost, measured: one matrix, circuits on it, worker processes."""
