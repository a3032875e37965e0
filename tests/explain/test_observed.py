"""What a text shows by the way decides between the causes of what failed in it."""

import pytest

from rdmadiag.explain.log.observed import observed
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


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("epoch 1:  41%|####      | 2048/5004 [38:12<55:01,  1.12s/it]", "has-worked"),
        (" Timestep  1840   dt= 2.1E-03   CFL= 0.41", "has-worked"),
        ("WorkNCCL(SeqNum=1130218, OpType=_ALLGATHER_BASE)", "has-worked"),
        ("4x400G per node, expected ~180. kernel 6.6.43", "complaint"),
        ("why is all_reduce so slow?", "complaint"),
        ("mlx5_0:1/RoCE (synd 0x15 vend 0x81)", "on-roce"),
    ],
)
def test_a_line_shows_it(line: str, word: str) -> None:
    assert word in observed(line)


@pytest.mark.parametrize(
    "line",
    [
        "WorkNCCL(SeqNum=3, OpType=ALLREDUCE)",
        "step 1 of 4: build the image",
        "NET/IB : Slow path is used",
        "dropped 12 packets from 10.0.0.1",
        "epoch 4: learning rate dropped from 0.1 to 0.01",
        "UserWarning: this DataLoader is slow with 64 workers, expected 8 GB/s",
        "Loading checkpoint shards: 100%|####| 163/163 [00:12<00:00]",
    ],
)
def test_a_line_shows_nothing(line: str) -> None:
    assert observed(line) == frozenset()
