"""Logs of all ranks and reports of all hosts → one story of a job: what failed first, and where."""
