"""Numbers that a line has: which is an errno, and which is a date, a level or a code of others."""

import pytest

from rdmadiag.explain.log.line.fields import fields

NO_ERRNO = {
    "the date that vLLM begins with": "ERROR 12-03 14:11:10 [worker.py:700] NIXL transfer failed",
    "the level that BeeGFS begins with": "(2) Nov26 10:00:02 IBVSocket >> rdma_connect: timed out",
    "the process of the next record": "RDMA: bind addr error 1:M 26 Nov 2026 10:00:02.124 # Failed",
    "a code of NVSHMEM": "proxy.cpp:900: non-zero status: 7 nvshmem_quiet() failed",
    "an error of PSM2": "n1.184559PSM2 can't open hfi unit: -1 (err=23)",
    "a release": "ibv_reg_mr failed, error 5.15 is the kernel's release",
}


@pytest.mark.parametrize("line", NO_ERRNO.values(), ids=NO_ERRNO)
def test_a_number_of_something_else_is_no_errno_and_no_status(line: str) -> None:
    found = fields(line)
    assert (found.errno, found.status) == (None, None)


@pytest.mark.parametrize(
    ("line", "errno"),
    [
        ("ERROR 12-03 14:11:10 ibv_reg_mr failed: error 12", 12),
        ("proxy.cpp:900: non-zero status: 22 ibv_reg_mr failed, errno 22", 22),
        ("rdma_connect failed (110)", 110),
        ("ibv_modify_qp failed with error 22: Invalid argument", 22),
        ("ibv_reg_mr failed: err=-12, len 7", 12),
        ("socketPollConnect: Connect to ::1<7> returned 113(No route to host) errno 11(A)", 113),
    ],
)
def test_the_number_of_a_failure_is_one(line: str, errno: int) -> None:
    assert fields(line).errno == errno
