"""What a log says that a program was told: no failure, but what others of its lines mean by it."""

from typing import Final

RDMA_OFF: Final = "rdma-off"
"""NCCL was told to use no RDMA."""
