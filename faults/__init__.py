"""RDMA-Faults: faults made live between two hosts, what tools said of them, and a scorer."""
