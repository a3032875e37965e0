"""What counters mean: differences of two samples, and what a rise says."""
