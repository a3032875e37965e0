"""Crashes: whose frame it is says whether RDMA is to blame."""

import pytest

from rdmadiag.explain.log.account import Account
from rdmadiag.explain.log.crash import FRAMES, crash_of
from rdmadiag.explain.log.kind import CRASH
from tests.explain.score import Excerpt, collected, score


def account(log: str) -> Account:
    """What the command finds in it."""
    return score(Excerpt("", {}, log.encode())).account


CRASHES = {
    "Open MPI's handler": "[n1:7] *** Process received signal ***\n"
    "[n1:7] Signal: Segmentation fault (11)\n"
    "[n1:7] Failing at address: 0x18\n"
    "[n1:7] [ 0] /lib64/libpthread.so.0(+0xf5d0)[0x7f01]\n"
    "[n1:7] [ 1] {0}(+0x12345)[0x7f02]\n",
    "UCX' handler": "[n1:7:0:7] Caught signal 11 (Segmentation fault: address not mapped)\n"
    "==== backtrace (tid:      7) ====\n"
    " 0  /usr/lib/libucs.so.0(ucs_handle_error+0x2e4) [0x7f01]\n"
    " 1  {0}(+0x12) [0x7f02]\n",
    "gdb": "Program received signal SIGSEGV, Segmentation fault.\n"
    "#0  0x00007f01 in raise () from /lib64/libc.so.6\n"
    "#1  0x00007f02 in ?? () from {0}\n",
    "the kernel": "[1.000001] app[7]: segfault at 8 ip 00007f01 sp 00007ffe error 4 in {0}[7f+4f]",
}


@pytest.mark.parametrize("form", CRASHES)
@pytest.mark.parametrize("library", ["libmlx5.so.1.24", "libucp.so.0.0.0", "libfabric.so.1"])
def test_a_crash_in_a_library_of_rdma_is_a_fault_of_it(form: str, library: str) -> None:
    first = account(CRASHES[form].format(library)).first
    assert first
    assert (first.what, first.causes[0].label) == (CRASH, "program-fault")
    assert library in first.text


@pytest.mark.parametrize("form", CRASHES)
def test_a_crash_in_another_program_is_none_of_rdma(form: str) -> None:
    found = account(CRASHES[form].format("libopenblas.so.0"))
    assert CRASH not in [each.what for each in found.failures]


def test_what_called_rdma_s_code_is_not_blamed_for_it_nor_rdma_for_its_caller() -> None:
    crash = "Program received signal SIGSEGV, Segmentation fault."
    mine, theirs = "#0  0x1 in mlx5_post_send () from libmlx5.so.1", "#0  0x1 in main () at a.c:7"
    assert crash_of(crash, [mine, "#1  0x2 in main () at a.c:7"])
    assert not crash_of(crash, [theirs, "#1  0x2 in ibv_poll_cq () from libibverbs.so.1"])


def test_the_kernel_stopped_where_the_first_module_is_one_of_rdma() -> None:
    oops = "[1.000001] list_del corruption, 01->next is LIST_POISON1\n"
    frames = "[1.000002] RIP: 0010:__list_del_entry_valid+0x31/0x47\n[1.000003]  {}+0x3/0x5 [{}]\n"
    ours = account(oops + frames.format("cm_destroy_id", "ib_cm")).first
    assert ours
    assert (ours.what, ours.causes[0].label) == (CRASH, "program-fault")
    other = account(oops + frames.format("xfs_trans_commit", "xfs"))
    assert CRASH not in [each.what for each in other.failures]


def test_a_frame_far_below_is_none_of_the_crash() -> None:
    lines = ["a word"] * FRAMES + ["#0  0x1 in mlx5_post_send () from libmlx5.so.1"]
    assert crash_of("Segmentation fault", lines[1:])
    assert not crash_of("Segmentation fault", lines)


def test_an_error_of_python_in_a_file_of_rdma_may_be_a_fault_of_it() -> None:
    log = (
        "Traceback (most recent call last):\n"
        '  File "/x/{}/device.py", line 9, in open\n'
        "AttributeError: 'NoneType' object has no attribute 'name'\n"
    )
    found = collected(log.format("pyverbs").encode())
    assert found.account(3, 99).first is not None
    other = collected(log.format("pandas").encode())
    assert other.account(3, 99).first is None
