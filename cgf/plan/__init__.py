"""What a range of exponents needs and what it costs: calibration, candidates, choice, cost, the plan's file."""
