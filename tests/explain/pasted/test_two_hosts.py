"""States that two hosts list, of which one has them otherwise."""

import pytest

from tests.explain.pasted.answer import ON_N1, ON_N2, first

MMFS = "mmfsadm test verbs status\nVERBS RDMA status: {}\n"
QOS = "mlnx_qos -i ens1\nPriority trust state: {}\n"
NVIDIA = "grep Stream /proc/driver/nvidia/params\nEnableStreamMemOPs: {}\n"


@pytest.mark.parametrize(
    ("listing", "good", "bad", "cause", "is_certain"),
    [
        (MMFS, "started", "stopped", "rdma-off-by-variable", True),
        (QOS, "dscp", "pcp", "traffic-not-lossless", False),
        (NVIDIA, "1", "0", "gpu-peer-mapping-off", True),
    ],
    ids=["GPFS", "trust of priorities", "NVIDIA's driver"],
)
def test_the_host_that_has_it_otherwise_is_shown(
    listing: str, good: str, bad: str, cause: str, is_certain: bool
) -> None:
    here, there = ON_N1 + listing, ON_N2 + listing
    assert first(here.format(good) + there.format(bad)) == (cause, 4, is_certain)
    assert first(here.format(bad) + there.format(good)) == (cause, 2, is_certain)
    assert first(here.format(good) + there.format(good)) is None


def test_gpfs_without_verbs_may_be_what_is_wrong_of_one_host_too() -> None:
    assert first(ON_N1 + MMFS.format("disabled")) == ("rdma-off-by-variable", 2, False)
    assert first(ON_N1 + QOS.format("pcp")) is None  # nothing says what it should be


BRIEF = "ip -br a show\nrdma0            UP             {}fe80::bace:f6ff:fe11:20a4/64\n"
LINK = "rdma link\nlink mlx5_0/1 state ACTIVE physical_state LINK_UP netdev rdma0\n"


def test_the_netdev_of_a_device_has_no_address_where_that_of_another_host_has() -> None:
    with_ipv4, without = BRIEF.format("10.224.0.6/12 "), BRIEF.format("")
    answer = ("no-usable-gid", 4, True)
    assert first(ON_N1 + with_ipv4 + ON_N2 + without + ON_N2 + LINK) == answer
    assert first(ON_N1 + with_ipv4 + ON_N2 + with_ipv4 + ON_N2 + LINK) is None
    assert first(ON_N1 + with_ipv4 + ON_N2 + without + ON_N1 + LINK) is None  # not of its device
    assert first(ON_N1 + without + ON_N2 + without + ON_N2 + LINK) is None
