"""Emulated RDMA hosts and a simulated InfiniBand fabric for the tests under tests/lab."""
