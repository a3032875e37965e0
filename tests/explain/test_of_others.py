"""Short texts in which RDMA stands beside what failed, or nothing has: and what then has failed."""

import pytest

from tests.explain.score import Excerpt, score

OOPS = """[55120.77] BUG: kernel NULL pointer dereference, address: 0000000000000038
[55120.77] RIP: 0010:{where}+0x5a/0x130 [{module}]
[55120.77] Call Trace:
[55120.77]  do_syscall_64+0x59/0xc0
[55120.77] Modules linked in: xfs rdma_ucm rdma_cm mlx5_ib ib_uverbs ib_core mlx5_core nvme
[55120.91] Kernel panic - not syncing: Fatal exception
"""
NVME = """[3.21] mlx5_core 0000:19:00.0: firmware version: 28.41.1000
[918820.11] nvme nvme1: I/O tag 412 (119c) opcode 0x2 (I/O Cmd) QID 17 timeout{then}
"""
RECAP = """TASK [wait for all IB ports to be Active] **********
FAILED - RETRYING: [n2]: wait for all IB ports to be Active (29 retries left).
PLAY RECAP *****************************************
n2      : ok=11   changed=4    unreachable=0    failed={failed}    skipped=2
"""
SUITE = """test_odp (tests.test_odp.OdpTestCase) ... skipped 'ODP is not supported'
test_bad_flow (tests.test_cq.CQTest) ... ok
test_write_with_invalid_rkey (tests.test_mr.MRTest) ... {ended}
"""
OF_NOTHING = {
    "an oops of a file system": OOPS.format(where="xfs_ail_push_all", module="xfs"),
    "a disk at PCIe": NVME.format(then=", aborting"),
    "Ansible, at last": RECAP.format(failed=0),
    "tests that were skipped": SUITE.format(ended="ok"),
    "counters of none": "$ ethtool -S eth0 | grep -E 'err|timeout|rdma'\n  rx_err: 0\n",
    "memory of the host": "EDAC MC1: 1 UE memory read error on CPU#0\nmlx5_0 is ACTIVE\n",
    "munge": "rdma0: up\nslurmd: error: Munge decode failed: Expired credential\n",
}
OF_RDMA = {
    "an oops of a driver": OOPS.format(where="mlx5_ib_dereg_mr", module="mlx5_ib"),
    "a disk over fabrics": NVME.format(then=""),
    "a test that failed": "mlx5_0: ibv_reg_mr failed: Cannot allocate memory\n"
    + SUITE.format(ended="FAIL"),
}


def fails(text: str) -> bool:
    account = score(Excerpt("x", {}, text.encode())).account
    return account.first is not None or account.unknown != ()


@pytest.mark.parametrize("text", OF_NOTHING.values(), ids=OF_NOTHING.keys())
def test_what_is_none_of_rdma(text: str) -> None:
    assert not fails(text)


@pytest.mark.parametrize("text", OF_RDMA.values(), ids=OF_RDMA.keys())
def test_what_is_of_rdma(text: str) -> None:
    assert fails(text)


def test_of_two_link_layers_a_port_of_one_is_no_peer_of_the_other() -> None:
    used = "n1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/{} ; OOB eth0\n"
    failed = "n1:1:3 [0] NCCL WARN Call to ibv_modify_qp failed with error No such device\n"

    def first(layer: str) -> str:
        account = score(Excerpt("x", {}, (used.format(layer) + failed).encode())).account
        assert account.first is not None
        return account.first.causes[0].label

    assert first("RoCE") == "link-layers-differ"
    assert first("IB") != "link-layers-differ"
