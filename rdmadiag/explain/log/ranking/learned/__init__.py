"""What was learned of threads of the field: cases whose words a log may share, and how often
a first cause was right. The tables are written by `python -m tests.explain.learn`."""
