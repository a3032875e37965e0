"""Diagnostics and preflight for RDMA hosts: reads everything, changes nothing."""

__version__ = "0.1.0"
