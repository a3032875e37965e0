"""Listings of other programs, and pastes of any kind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.explain.pasted import shown
from tests.explain.pasted.answer import MAC, ON_N1, ON_N2, first


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            f"{ON_N1}systemctl is-active nvidia-fabricmanager\nfailed\n",
            ("fabric-manager-down", 2, True),
        ),
        (
            f"{ON_N1}cat /sys/class/infiniband/*/ports/1/state\n2: INIT\n",
            ("no-subnet-manager", 2, True),
        ),
        ('  2  8[  ] ==(  Down/Disabled)==>   [  ] "" ( )\n', ("port-down", 1, False)),
        ("Temperature [C]                    : 82 [-5..75]\n", ("too-hot", 1, True)),
        ("Temperature [C]                    : 52 [-5..75]\n", None),
        ("\tLink detected: no\n", ("port-down", 1, False)),
        ("\tLink detected: yes\n", None),
        ("  DiskPressure         True    Wed, 11 Mar 2026\n", ("disk-full", 1, True)),
        ("  DiskPressure         False   Wed, 11 Mar 2026\n", None),
        (
            (
                f"{ON_N1}devlink dev param show pci/0000:b1:00.0 name enable_roce\n"
                "      cmode driverinit value false\n"
            ),
            ("rdma-off-on-device", 2, True),
        ),
        (
            (
                f"{ON_N1}devlink dev param show pci/0000:b1:00.0 name enable_roce\n"
                "      cmode driverinit value true\n"
            ),
            None,
        ),
        ("shm              64M   64M     0 100% /dev/shm\n", ("shm-too-small", 1, True)),
        ("10.12.0.1@o2ib:/scratch  812T  812T   12M 100% /scratch\n", ("disk-full", 1, True)),
        ("/dev/loop3  56M  56M  0 100% /snap/core18/2829\n", None),
        ("nfs1:/home  20T  14T  6.4T  69% /home\n", None),
        (f"{ON_N1}systemctl is-active nvidia-fabricmanager\nactive\n", None),
        (f"{ON_N1}cat /sys/class/infiniband/*/ports/1/state\n4: ACTIVE\n", None),
        (
            f"{ON_N1}lsmod | grep -E '^(ib|rdma)'\nib_uverbs 1 1 mlx4_ib\nib_core 5 2 ib_uverbs\n",
            ("rdma-ucm-not-loaded", 3, False),
        ),
        (
            (
                f"{ON_N1}kubectl get nodes -o custom-columns=NAME:x,RDMA:.status.allocatable.r\n"
                "NAME     RDMA\nnode1    63\nnode3    0\n"
            ),
            ("resource-not-advertised", 4, True),
        ),
        (
            "        - nid: 10.10.1.53@o2ib\n          status: down\n",
            ("interface-down", 2, True),
        ),
        ("        - nid: 10.10.1.53@o2ib\n          status: up\n", None),
        ("        - nid: 10.10.1.53@tcp\n          status: down\n", None),
        (
            f"{ON_N1}lsmod | grep -E 'ib_|rdma|mlx'\nib_core  557056  0\n",
            ("ib-uverbs-not-loaded", 2, True),
        ),
        (
            f"{ON_N1}lsmod | grep -E 'ib_|rdma'\nib_uverbs 1 1\nrdma_ucm 1 0\nib_core 5 1\n",
            None,
        ),
        (
            (
                "Infiniband device 'mlx5_1' port 1 status:\n\tstate:\t\t 1: DOWN\n"
                "\tphys state:\t 3: Disabled\n\tlink_layer:\t InfiniBand\n"
            ),
            ("port-down", 3, False),
        ),
        (
            (
                "Infiniband device 'mlx5_1' port 1 status:\n\tstate:\t\t 1: DOWN\n"
                "\tphys state:\t 2: Polling\n\tlink_layer:\t InfiniBand\n"
            ),
            None,
        ),
    ],
)
def test_other_listings(text: str, found: tuple[str, int, bool] | None) -> None:
    assert first(text) == found


PIECES = [
    *(ON_N1, ON_N2, MAC, "ibstat", "ethtool -S eth0", "\n", "\n", "State: Active", "Rate: 10"),
    *("LINK_TYPE_P1 ETH(2)", "GID[ 0]: x", "inet 10.0.9.1 netmask 0xffffff00", "ifconfig en2"),
    *("ping -M do -s 9", "1 packets transmitted, 0 received", "unreachable 1/2 ", "rdma.max"),
    *(
        "NCCL_IB_HCA=mlx5_0",
        "ibv_devices",
        "active_mtu: x",
        "0xffff",
        "ib0.8012@ib0 ",
        "rx_symbol_err_phy: 5",
        "CA type: MT4123",
    ),
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=20), max_size=40))
def test_no_text_is_too_odd(pieces: list[str]) -> None:
    text = "".join(pieces)
    numbers = [each.line.number for each in shown(text)]
    assert all(0 < number <= len(text.splitlines()) for number in numbers)


MTU = (
    "[a@n{} ~]# ibv_devinfo\n\t\tstate: PORT_ACTIVE (4)\n\t\tactive_mtu: {}\n"
    "\t\tlink_layer: Ethernet\n"
)


@pytest.mark.parametrize(
    "text",
    [
        f"rx_prio0_pause_duration +{'9' * 340}\n",
        "link mlx5_0/1 a 1 b 2 c \N{SUPERSCRIPT TWO}\n",
        "en2: flags=8863\n\tinet 10.0.0.256 netmask 0xffffff00\nibv_devices\n",
        "mlx5_core x: 1.2.3 Gb/s available PCIe bandwidth (8.0 GT/s x8 link)\n",
        MTU.format(1, "4x") + MTU.format(2, "1024 (3)"),
        "Name Enabled PFC\n--- --- ---\n" * 2000,
    ],
    ids=["a rise", "a digit", "an address", "a bandwidth", "an MTU", "many tables"],
)
def test_odd_numbers_and_many_tables_show_nothing(text: str) -> None:
    assert list(shown(text)) == []
