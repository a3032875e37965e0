"""What a text shows by the way decides between the causes of what failed in it."""

import pytest

from rdmadiag.explain.log.ranking.first_causes import NOT_AFTER_STEPS
from rdmadiag.explain.log.text.observed import observed
from tests.explain.score import Excerpt, score


def causes(log: str) -> list[str]:
    account = score(Excerpt("", {}, log.encode())).account
    return [each.label for each in account.first.causes] if account.first else []


GIDS = "localGid {0} remoteGids{0}"
FAILED = (
    "n1:1:2 [0] transport/net_ib.cc:1298 NCCL WARN NET/IB : Got completion from peer "
    "10.8.0.27<41022> with status=12 opcode=0 len=0 vendor err 129 (Recv) {}\n"
)
OF_MAC, OF_GUID = "fe80::a288:c2ff:fe1c:41d6", "fe80::a288:c203:1c:41d6"


def test_a_gid_of_a_guid_is_of_infiniband() -> None:
    assert "gid-does-not-route" in causes(FAILED.format(GIDS.format(OF_MAC)))
    assert "gid-does-not-route" not in causes(FAILED.format(GIDS.format(OF_GUID)))


def test_link_local_gids_of_both_ends_come_first_unless_it_has_worked() -> None:
    two = FAILED.format(f"localGid {OF_MAC} remoteGids {OF_MAC}").replace("status=12", "error 12")
    assert causes(two)[0] == "gid-does-not-route"
    of_guid = FAILED.format(f"localGid {OF_GUID} remoteGids {OF_GUID}")
    assert causes(of_guid)[0] != "gid-does-not-route"


def test_what_has_worked_was_set_up_right() -> None:
    failed = FAILED.format(GIDS.format(OF_MAC))
    assert causes(failed)[0] == "gid-does-not-route"
    assert causes(f"step 18210 | loss 2.1174 | tok/s 381k\n{failed}")[0] == "peer-gone"


def test_where_somebody_says_that_it_is_slow_what_slows_it_is_the_answer() -> None:
    log = (
        "n1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eno1:10.1.3.11<0>\n"
        "n1:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
        "# Avg bus bandwidth    : 84.9697\n"
    )
    assert causes(log) == []
    assert causes(f"since the update all_reduce dropped from 480 to this\n{log}") == ["gdr-off"]


def test_a_manual_says_how_a_program_is_started_and_nothing_failed() -> None:
    usage = "       rping -s [-v] [-V] [-d] [-P] [-a address] [-p port]\n"
    assert causes(usage)[0] == "argument-refused"
    assert causes(f"SYNOPSIS\n{usage}\nDESCRIPTION\n       Establishes a connection.\n") == []


def test_what_a_page_of_the_manual_says_of_failures_is_none() -> None:
    page = (
        "IBV_REG_MR(3)      Libibverbs Programmer's Manual      IBV_REG_MR(3)\n\nSYNOPSIS\n"
        "       #include <infiniband/verbs.h>\n\nNOTES\n"
        "       ibv_dereg_mr() fails if any memory window is still bound to this MR.\n"
    )
    assert causes(page) == []
    failed = "Failed to modify QP to RTR: Invalid argument\n"
    assert causes(page + failed)
    assert causes(failed + page)
    assert causes(page.replace("SYNOPSIS", "Synopsis"))
    session = "    user@n1:~$ ib_write_bw n2\n     Failed status 12: wr_id 0 syndrom 0x81\n"
    assert causes(page + session)
    assert causes(page + "LOST\n       Failed status 12: wr_id 0 syndrom 0x81\n")
    errors = "ERRORS\n       ERRNO 98: rdma_listen: Address already in use\n"
    assert causes(page + errors) == []


def test_a_path_mtu_that_is_lowered_is_why_where_somebody_says_that_it_is_slow() -> None:
    lowered = (
        "Requested mtu is higher than active mtu \nChanging to active mtu - 3\n"
        " 65536      5000             155.07             154.88             0.295410\n"
    )
    assert causes(lowered) == []
    assert causes(f"n8 gets 20% less than the others\n{lowered}") == ["mtu-above-port"]


@pytest.mark.parametrize("of_ib", ["NET/IB : Using [0]mlx5_0:1/IB [RO];", "dlid 0x12"])
def test_row_0_of_infiniband_is_the_right_one(of_ib: str) -> None:
    failed = (
        "n1:1:2 [0] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_modify_qp failed with error "
        f"Connection timed out errno 110 {of_ib if of_ib.startswith('dlid') else ''}\n"
    )
    row = "n1:1:2 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to 0.\n"
    found = causes(f"n1:1:2 [0] NCCL INFO {of_ib}\n" + row + failed)
    assert found[0] != "gid-does-not-route"


def test_row_0_of_the_gid_table_is_why_no_way_is_found_at_rtr() -> None:
    failed = (
        "n1:1:2 [0] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_modify_qp failed with error "
        "Connection timed out errno 110\n"
    )
    row = "n1:1:2 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to {}.\n"
    assert causes(failed)[0] == "peer-unreachable"
    assert causes(row.format(3) + failed)[0] == "peer-unreachable"
    assert causes(row.format(0) + failed)[:2] == ["gid-does-not-route", "peer-unreachable"]


def test_a_page_with_the_heads_of_man_says_how_a_program_is_started_too() -> None:
    usage = "NAME\n\nSYNOPSIS\n       rping -s [-v] [-V] [-d] [-P] [-a address] [-p port]\n"
    head = "RPING(1)                   librdmacm                   RPING(1)\n"
    assert (causes(usage)[0], causes(head + usage)) == ("argument-refused", [])


def test_what_is_lost_recovers_and_is_lost_again_is_a_link_that_flaps_or_loses() -> None:
    failed = (
        "[{}.1] nvme nvme3: SEND for CQE 0x6f5d failed with status transport retry counter "
        "exceeded (12)\n"
    )
    recovers = "[101.2] nvme nvme{}: Successfully reconnected (1 attempt)\n"
    once, again = failed.format(100), failed.format(190)
    whole = once + recovers.format(3) + again
    assert causes(whole)[0] == "link-flaps"
    assert causes(f"on mlx5_0:1/RoCE (synd 0x15)\n{whole}")[:2] == [
        "traffic-not-lossless",
        "link-flaps",
    ]
    for other in (once + again, once + again + recovers.format(3), recovers.format(3) + once):
        assert causes(other)[0] != "link-flaps"
    assert causes(once + recovers.format(1) + again)[0] != "link-flaps"


def test_a_connection_of_gpfs_is_known_by_its_peer() -> None:
    said = "[E] VERBS RDMA rdma write error IBV_WC_RETRY_EXC_ERR to {0} (n2) on mlx5_0 port 1\n"
    back = "[I] VERBS RDMA connected to {0} (n2) on mlx5_0 port 1\n"
    flaps = (said + back + said).format("192.0.2.2")
    assert "recovers" in observed(flaps)
    assert "recovers" not in observed((said + said + back).format("192.0.2.2"))
    assert "recovers" not in observed(said.format("192.0.2.2") * 2 + back.format("192.0.2.3"))


def test_of_an_address_that_was_resolved_the_neighbour_is_known() -> None:
    resolved = "cma_event type RDMA_CM_EVENT_ROUTE_RESOLVED cma_id 0x55 (parent)\n"
    unanswered = "cma event RDMA_CM_EVENT_UNREACHABLE, error -110\n"
    assert causes(unanswered)[0] == "peer-unreachable"
    assert causes(resolved + unanswered)[0] == "firewall"
    assert causes("Link type       : Ethernet\n" + resolved + unanswered)[:2] == [
        *("roce-port-dropped", "firewall")
    ]


def test_a_narrow_slot_is_noted_and_is_the_answer_where_somebody_says_that_it_is_slow() -> None:
    log = (
        "mlx5_core 0000:21:00.0: 126.024 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe "
        "x8 link at 0000:20:01.1 (capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)\n"
    )
    assert causes(log) == []
    assert causes(f"ib_write_bw is slow here, 100 Gb/s\n{log}") == ["pcie-link-narrow"]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("epoch 1:  41%|####      | 2048/5004 [38:12<55:01,  1.12s/it]", "has-worked"),
        (" Timestep  1840   dt= 2.1E-03   CFL= 0.41", "has-worked"),
        ("WorkNCCL(SeqNum=1130218, OpType=_ALLGATHER_BASE)", "has-worked"),
        ("DAV:  14    -0.118873391284E+04   -0.22841E-03   -0.10347E-04 41280", "has-worked"),
        ("Timing for main: time 2022-07-18_00:41:12 on domain   2:    1.20871", "has-worked"),
        ("INFO - Prompt processing progress: 2048/28451", "has-worked"),
        ("4x400G per node, expected ~180. kernel 6.6.43", "complaint"),
        ("why is all_reduce so slow?", "complaint"),
        ("27 seconds per step, on the old cluster the same config did 4.", "complaint"),
        ("all reduce drops to a third once we go over 16 nodes", "complaint"),
        ("all-to-all at 12 GB/s instead of 40 since we reimaged the hosts", "complaint"),
        (
            "Epoch 0, iteration 8815/99999 | lr: 0.0002991 |  | train_step_timing in s: 7.2",
            "has-worked",
        ),
        (" iteration    14320/  500000 | learning rate: 2.8E-04 | lm loss: 2.1E+00", "has-worked"),
        (" step   41200  time  8.2400  dt 2.00e-04  wall 1811.3", "has-worked"),
        ("RDMA device: mlx5_2, LID: 0, GID: (GID_Index 0) fe:80:00:00:00:00", "gid-index-0"),
        ("mlx5_0:1/RoCE (synd 0x15 vend 0x81)", "on-roce"),
        ("NET/IB: Dev 0 Port 1 qpn 2214 mtu 3 GID 0 (80FE/2ACD47FEFF6E3B5C)", "gid-index-0"),
    ],
)
def test_a_line_shows_it(line: str, word: str) -> None:
    assert word in observed(line)


@pytest.mark.parametrize(
    "line",
    [
        "expected ~ 360-390, what am I missing",
        "memory: rank 0 is at 71 GB, the others are at 69 GB",
        "cosine schedule: lr drops to a tenth after 1M samples",
        "Namespace(epochs=90, step=30, seed=42, label_smoothing=0.1, criterion=cross_entropy_loss)",
        "WorkNCCL(SeqNum=3, OpType=ALLREDUCE)",
        "step 1 of 4: build the image",
        "NET/IB : Slow path is used",
        "dropped 12 packets from 10.0.0.1",
        "epoch 4: learning rate dropped from 0.1 to 0.01",
        "GPU memory in use is 12 % lower than before",
        "busbw is 1 % less than the baseline, limit 10 %: PASS",
        "UserWarning: this DataLoader is slow with 64 workers, expected 8 GB/s",
        "Loading checkpoint shards: 100%|####| 163/163 [00:12<00:00]",
    ],
)
def test_a_line_shows_nothing(line: str) -> None:
    assert observed(line) == frozenset()


@pytest.mark.parametrize(
    "line",
    [
        "expected ~ 360-390, what am I missing",
        "p5.48xlarge x2, should be ~ 400+",
        "all other pairs of nodes give 97. Link looks fine to me:",
        "node25 is the slow one in the pairwise test, others are at 390ish",
        "it never goes over 27 or so in either direction",
        "Why is it so slow on 4 nodes?",
    ],
)
def test_beside_a_table_of_a_benchmark_a_complaint_needs_no_unit(line: str) -> None:
    table = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
    assert "complaint" not in observed(line)
    assert "complaint" in observed(f"{table}\n{line}")
    assert "complaint" not in observed(f"{table}\n[12.1] WARN: {line}")
    assert "complaint" not in observed(f"{table}\nranks: 16, expected 16")


STEP = " iteration 41160/ 500000 | lm loss: 2.204113E+00 |\n"
EXHAUSTED = (
    "n1:7:9 [5] net_ib.cc:2180 NCCL WARN NET/IB: Got completion from peer 10.22.4.31<55144> with "
    "status=12 opcode=0 len=0 vendor err 129 (Send)\n"
)


def test_a_setting_that_explains_a_failure_does_so_after_steps_too() -> None:
    setting = "n1:7:7 [5] NCCL INFO NCCL_IB_RETRY_CNT set by environment to 1.\n"
    assert causes(STEP + EXHAUSTED)[0] not in NOT_AFTER_STEPS
    assert causes(EXHAUSTED)[0] in NOT_AFTER_STEPS
    given = "n1:7:7 [5] NCCL INFO NCCL_IB_TIMEOUT set by environment to 12.\n"
    assert "ack-timeout-short" in causes(given + setting + STEP + EXHAUSTED)[:2]


UCX_ENDS = (
    "[n1:7:0:7] ib_mlx5_log.c:177  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend "
    "0x81 hw_synd 0/0)\n"
    "==== backtrace (tid: 7) ====\n"
    " 0  /usr/lib64/libucs.so.0(ucs_handle_error+0x2e4) [0x7f9fb1c0a7a4]\n"
    " 1  /usr/lib64/libucs.so.0(ucs_log_default_handler+0xf09) [0x7f9fb1c0c2d9]\n"
)


def test_ucx_that_gives_up_after_a_transfer_has_not_crashed() -> None:
    frame = " 2  /usr/lib64/ucx/libuct_ib.so.0({}+0x24c) [0x7f9fa8f1f61c]\n"
    assert "program-fault" not in causes(UCX_ENDS + frame.format("uct_ib_mlx5_completion_with_err"))
    assert "program-fault" in causes(UCX_ENDS + frame.format("uct_ib_mlx5_iface_init"))


COUNTERS = (
    "root@n1:~# cd /sys/class/infiniband/mlx5_4/ports/1/hw_counters; grep . *\n"
    "out_of_sequence:9203318\nnp_cnp_sent:4\nroce_adp_retrans:64102\n"
)


def test_packets_out_of_order_are_a_lossy_way_where_somebody_says_that_it_is_slow() -> None:
    assert causes(COUNTERS) == []
    assert causes(f"all_reduce is so slow over 16 nodes\n{COUNTERS}")[0] == "traffic-not-lossless"


def test_what_a_listing_shows_of_the_way_is_why_a_transfer_has_no_answer() -> None:
    failed = "n1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.9<1> with status=12\n"
    listed = (
        "[root@n1 ~]# ethtool -S ens1f0np0\n     rx_prio0_bytes: 9\n     rx_prio3_bytes: 0\n"
        "     rx_prio0_discards: 104221\n"
    )
    assert causes(failed)[0] != "traffic-not-lossless"
    assert causes(failed + listed)[0] == "traffic-not-lossless"
    assert causes(listed) == []
    other = "n1:1:2 [0] NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory\n"
    assert "traffic-not-lossless" not in causes(other + listed)
