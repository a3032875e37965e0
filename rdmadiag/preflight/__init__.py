"""The report on a host, and what is to be thought of it."""
