"""Finds the few lines that matter in a file of any size, before anything looks at them."""
