"""What the cost tables measure: one matrix, circuits on it, runs by one or more worker processes."""
