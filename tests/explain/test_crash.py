"""Crashes: whose frame it is says whether RDMA is to blame."""

import pytest

from rdmadiag.explain.log.account import Account
from rdmadiag.explain.log.kind import CRASH, HANGS
from rdmadiag.explain.log.recognition.crash import FRAMES, crash_of
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


TRACE = "Call Trace:\n dump_stack+0x71/0xab\n{}\n process_one_work+0x14c/0x390\n"
SPLATS = {
    "a lock that nobody set up": "[2.0] INFO: trying to register non-static key.\n",
    "locks in another order": "WARNING: possible circular locking dependency detected\n",
    "RCU used without its lock": "WARNING: suspicious RCU usage\n",
    "undefined behaviour": "UBSAN: shift-out-of-bounds in a.c:7:9\n",
    "a trace whose header was not pasted": "[2.1] CPU: 7 PID: 9 Comm: modprobe\n",
}


@pytest.mark.parametrize("splat", SPLATS.values(), ids=SPLATS)
def test_what_the_kernel_finds_wrong_in_a_module_of_rdma_is_its_fault(splat: str) -> None:
    first = account(splat + TRACE.format(" cm_add_one+0x4b0/0x9d0 [ib_cm]")).first
    assert first
    assert (first.what, first.causes[0].label) == (CRASH, "program-fault")
    other = account(splat + TRACE.format(" e1000_probe+0x4b0/0x9d0 [e1000]"))
    assert CRASH not in [each.what for each in other.failures]


@pytest.mark.parametrize(
    "header",
    [
        "mlx5: page allocation failure: order:5, mode:0xcc0",
        "rcu: INFO: rcu_sched self-detected stall on CPU",
        "sysrq: Show backtrace of all active CPUs",
    ],
)
def test_a_trace_that_the_kernel_shows_for_another_reason_is_no_crash(header: str) -> None:
    found = account(f"{header}\n{TRACE.format(' mlx5_buf_alloc+0x4b/0x9d [mlx5_core]')}")
    assert CRASH not in [each.what for each in found.failures]


@pytest.mark.parametrize(
    ("frame", "label"),
    [
        ("mlx5_cmd_exec+0x1c6/0x2f0 [mlx5_core]", "firmware-silent"),
        ("nvme_rdma_stop_queue+0x1c/0x2f [nvme_rdma]", "peer-gone"),
        ("ib_unregister_device+0x1c/0x2f [ib_core]", "program-fault"),
    ],
)
def test_a_task_that_hangs_in_rdma_waits_for_what_its_frame_says(frame: str, label: str) -> None:
    hung = "INFO: task kworker/3:1:77 blocked for more than 122 seconds.\nCall Trace:\n"
    first = account(f"{hung} __schedule+0x2bd/0x760\n schedule+0x37/0xa0\n {frame}\n").first
    assert first
    assert (first.what, first.causes[0].label) == (HANGS, label)
    assert account(f"{hung} __schedule+0x2bd/0x760\n ext4_sync+0x1/0x2 [ext4]\n").first is None


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(
            "Core was generated by `/usr/bin/server --port 7'.\n"
            "#0  0x00007fa0c8da197b in ?? () from /lib/x86_64-linux-gnu/librdmacm.so.1\n",
            id="gdb reads a core file",
        ),
        pytest.param(
            "double free or corruption (fasttop)\n*** SIGABRT received at time=7 ***\n"
            "    @ 0x7f01  cfree\n    @ 0x7f02  ncclIbFinalize()\n",
            id="glog",
        ),
        pytest.param(
            "[1.1] WARNING: CPU: 8 PID: 9 at kernel/workqueue.c:1680 __pwq_activate+0x90/0xa0\n"
            f"[1.2] Modules linked in: {' '.join(f'module{n}' for n in range(60))}\n"
            "[1.3] Workqueue:  0x0 (iw_cm_wq)\n[1.4] RIP: 0010:__pwq_activate+0x90/0xa0\n",
            id="a work queue of RDMA, far below",
        ),
        pytest.param(
            "[n1:7:0:7] Caught signal 11 (Segmentation fault: address not mapped)\n"
            " 0 0x0000000000028663 ucs_debug_print_backtrace()  /src/ucs/debug/debug.c:656\n"
            " 1 0x000000000000bbb6 _dl_relocate_object()  :0\n"
            " 2 0x000000000000fab4 dlopen_doit()  dlopen.c:0\n"
            " 3 0x000000000000de00 ucm_prevent_dl_unload()  /src/ucm/util/sys.c:311\n",
            id="the linker, as UCX loads a library",
        ),
    ],
)
def test_other_reports_of_a_crash_name_the_frame_too(log: str) -> None:
    first = account(log).first
    assert first
    assert (first.what, first.causes[0].label) == (CRASH, "program-fault")


def test_a_mac_whose_cable_went_crashes_where_it_posts() -> None:
    log = (
        "EXC_BAD_ACCESS  SIGSEGV  KERN_INVALID_ADDRESS at 0x0000000104ac4008\n"
        "libthunderboltrdma.dylib  {}\njaccl::Connection::post_recv(jaccl::SharedBuffer const&)\n"
    )
    first = {name: account(log.format(name)).first for name in ("tbt_post_recv", "tbt_reg_mr")}
    assert [each and each.causes[0].label for each in first.values()] == [
        "link-lost",
        "thunderbolt-4",
    ]


def test_a_write_that_fortify_source_reports_goes_on() -> None:
    warning = "WARNING: CPU: 3 PID: 82 at fs/smb/server/smb2pdu.c:1373 ntlm+0x1bf/0x1e0 [ksmbd]\n"
    assert account(f"[1.1] {warning}").first
    said = 'memcpy: detected field-spanning write (size 137) of single field "sz" at smb2pdu.c:1373'
    assert account(f"[1.0] {said}\n[1.1] {warning}").first is None


def test_an_oops_of_a_target_is_of_rdma_where_it_serves_rdma() -> None:
    oops = "general protection fault: 0000 [#1] SMP\nRIP: 0010:nvmet_async+0x5e/0xb0 [nvmet]\n"
    first = account(f"nvmet_rdma: enabling port 2 (192.0.2.4:4421)\n{oops}").first
    assert first
    assert first.what == CRASH
    over_tcp = account(f"nvmet_tcp: enabling port 2 (192.0.2.4:4420)\n{oops}")
    assert CRASH not in [each.what for each in over_tcp.failures]


def test_beside_a_crash_what_failed_before_may_be_its_fault() -> None:
    failed = (
        "nvmet_rdma: SEND for CQE 0x7 failed with status transport retry counter exceeded (12)."
    )
    alone = account(failed).first
    oops = "BUG: unable to handle kernel NULL pointer dereference at 0000000000000048\n"
    crashed = account(
        f"{failed}\n{oops}RIP: 0010:nvmet_rdma_error_comp+0x5/0x1b [nvmet_rdma]\n"
    ).first
    assert alone
    assert crashed
    assert "program-fault" not in [each.label for each in alone.causes]
    assert crashed.causes[0].label == alone.causes[0].label
    assert crashed.causes[1].label == "program-fault"


def test_a_write_that_fortify_source_reports_hides_no_crash_after_it() -> None:
    log = (
        '[1.0] memcpy: detected field-spanning write (size 7) of single field "a" at b.c:7\n'
        "[1.1] BUG: kernel NULL pointer dereference, address: 0000000000000008\n"
        "[1.2] RIP: 0010:mlx5_ib_post_send+0x5/0x1b [mlx5_ib]\n"
    )
    assert CRASH in [each.what for each in account(log).failures]


def test_a_work_queue_of_ibm_s_virtual_ethernet_is_none_of_rdma() -> None:
    log = (
        "[1.1] BUG: kernel NULL pointer dereference, address: 0000000000000008\n"
        "[1.2] Workqueue: ibmvnic __ibmvnic_reset [ibmvnic]\n"
        "[1.3] RIP: 0010:ibmvnic_login+0x5/0x1b [ibmvnic]\n"
    )
    assert CRASH not in [each.what for each in account(log).failures]
