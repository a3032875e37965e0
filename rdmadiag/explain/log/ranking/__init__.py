"""Which cause is the likeliest, by rules, words, what was learned, and reports."""
