"""What a paste shows of a host beside its ports."""

import pytest

from rdmadiag.explain.pasted import shown
from tests.explain.pasted.answer import ON_N1, first


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("10.64.5.4 FAILED\n", ("peer-unreachable", 1, False)),
        ("10.64.5.4 lladdr 94:6d:ae:31:c4:28 REACHABLE\n", None),
        ("\tModule temperature high alarm             : On\n", ("too-hot", 1, True)),
        ("\tModule temperature high alarm             : Off\n", None),
        ("\tLaser rx power low alarm   : On\n", ("cable-or-module", 1, True)),
        ("  udp dport 4791 counter packets 12 bytes 900 drop\n", ("firewall", 1, True)),
        ("  udp dport 4791 counter packets 12 bytes 900 accept\n", None),
        (
            " 396  115K DROP  udp  --  *  *  0.0.0.0/0  0.0.0.0/0  udp dpt:4791\n",
            ("firewall", 1, True),
        ),
        ("   0     0 DROP  udp  --  *  *  0.0.0.0/0  0.0.0.0/0  udp dpt:4791\n", None),
        (
            "\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16 (ok)\n",
            ("pcie-link-narrow", 1, False),
        ),
        ("\t\tLnkSta:\tSpeed 16GT/s (ok), Width x16 (ok)\n", None),
        (
            (
                "3b:00.0 3D controller: NVIDIA Corporation\n"
                "\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16 (ok)\n"
            ),
            None,  # a GPU that has nothing to do
        ),
        ("\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+\n", ("acs-or-iommu", 1, False)),
        ("\t\tACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir-\n", None),
        ("\t\tMaxPayload 256 bytes, MaxReadReq 128 bytes\n", ("slow-path", 1, False)),
        ("\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes\n", None),
        ("Ethernet1/9    Auto Off     0     0\n", ("traffic-not-lossless", 1, False)),
        ("Ethernet1/9    On   On  (8) 0     0\n", None),
        ("  support_rdma = False\n", ("rdma-off-on-device", 1, True)),
        ("  support_rdma = True\n", None),
        ("  40 deny udp any any eq 4791 [match=7]\n", ("roce-port-dropped", 1, True)),
        ("  40 deny udp any any eq 4791 [match=0]\n", None),
        ("  40 permit udp any any eq 4791 [match=9]\n", None),
        ("  90 deny ip any any [match=9]\n", None),
        ("  Remapping Failure Occurred        : Yes\n", ("gpu-fault", 1, True)),
        ("  Remapping Failure Occurred        : No\n", None),
        ("  DRAM Uncorrectable            : 14\n", ("gpu-fault", 1, True)),
        ("  DRAM Uncorrectable            : 0\n", None),
        (
            " 1a3 | 11/04/2024 | 06:58:17 | Memory #0x87 | Uncorrectable ECC | Asserted\n",
            ("host-memory-failed", 1, True),
        ),
        (" 1a3 | 11/04/2024 | 06:58:17 | Memory #0x87 | Correctable ECC | Asserted\n", None),
    ],
)
def test_a_line_of_a_listing(lines: str, found: tuple[str, int, bool] | None) -> None:
    assert first(lines) == found


def test_a_module_that_lsmod_does_not_list_may_be_needed() -> None:
    asked = f"{ON_N1}lsmod | grep -E 'peermem|ib_core'\n"
    assert first(f"{asked}ib_core  516096  8 rdma_cm\n") == ("gdr-off", 1, False)
    assert first(f"{asked}nvidia_peermem  16384  0\n") is None


def test_a_rule_for_all_udp_whose_packets_became_more() -> None:
    row = " {}  115K DROP  udp  --  *  *  0.0.0.0/0  0.0.0.0/0\n"
    asked = f"{ON_N1}iptables -nvL INPUT\n"
    assert first(f"{asked}{row.format(396)}") is None
    assert first(f"{asked}{row.format(396)}{asked}{row.format(396)}") is None
    assert first(f"{asked}{row.format(396)}{asked}{row.format(404)}") == ("firewall", 4, True)


def test_a_device_that_another_namespace_has() -> None:
    system = f"{ON_N1}rdma system\nnetns {{}} copy-on-fork on\n"
    there = f"{ON_N1}ip netns exec tenant1 rdma dev\n2: mlx5_2: node_type ca\n"
    found = ("device-in-other-netns", 2, True)
    assert first(system.format("exclusive") + there) == found
    assert first(system.format("shared") + there) is None
    assert first(system.format("exclusive")) is None


def test_a_child_of_ipoib_whose_partition_the_port_is_no_member_of() -> None:
    keys = f"{ON_N1}cat /sys/class/infiniband/mlx5_0/ports/1/pkeys/*\n0xffff\n{{}}\n"
    child = f"{ON_N1}ip -br addr\nib0.8012@ib0     DOWN           10.18.0.2/16\n"
    assert first(keys.format("0x0000") + child) == ("pkey-index", 5, True)
    assert first(keys.format("0x8012") + child) is None
    assert first(keys.format("0x0012") + child) is None  # a limited member


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ("OUT_OF_ME+", ("killed-for-memory", 2, True)),
        ("TIMEOUT", ("job-ended", 2, True)),
        ("COMPLETED", None),
    ],
)
def test_how_slurm_says_that_a_job_ended(state: str, found: tuple[str, int, bool] | None) -> None:
    assert first(f"{ON_N1}sacct -j 719034\n719034       {state}    0:125   00:21:37\n") == found


def test_an_rdma_cgroup_that_has_reached_its_limit() -> None:
    most = f"{ON_N1}cat rdma.max\nmlx5_0 hca_handle=64 hca_object=2000\n"
    now = f"{ON_N1}cat rdma.current\nmlx5_0 hca_handle=32 hca_object={{}}\n"
    assert first(most + now.format(2000)) == ("rdma-cgroup", 4, True)
    assert first(most + now.format(1999)) is None


def test_an_access_list_that_denies_the_rest_and_is_met_more_often() -> None:
    asked = f"{ON_N1}show ip access-lists RACK-IN\n"
    row = "        90 deny ip any any [match={}]\n"
    assert first(f"{asked}{row.format(7316)}{asked}{row.format(7316)}") is None
    found = first(f"{asked}{row.format(7316)}{asked}{row.format(7444)}")
    assert found == ("roce-port-dropped", 4, True)


def test_a_nic_that_leaves_the_addresses_of_gpu_memory_to_the_iommu() -> None:
    off = "\t\tATSCtl:\tEnable-, Smallest Translation Unit: 00\n"
    used = "NCCL INFO Channel 00/0 : 15[7] -> 0[0] [receive] via NET/IB/0/GDRDMA\n"
    assert first(f"{off}{used}") == ("acs-or-iommu", 1, False)
    assert first(off) is None
    assert first(f"{off.replace('-,', '+,')}{used}") is None


UFW = "Status: active\n\nTo                         Action      From\n"
ALLOWED = "22/tcp                     ALLOW       Anywhere\n"


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("18515/tcp                  ALLOW       10.0.0.0/24\n", "roce-port-dropped"),
        ("22/tcp (v6)                LIMIT       Anywhere (v6)\n", "roce-port-dropped"),
        (f"{ALLOWED}4791/udp                   DENY        Anywhere\n", "roce-port-dropped"),
        ("23/tcp                     DENY        Anywhere\n", None),  # and all else is let in
        ("4791/udp                   ALLOW IN    Anywhere\n", None),
        ("1024:65535/udp             ALLOW       10.0.0.0/24\n", None),
        ("80,443,4791                ALLOW       Anywhere\n", None),
        ("Anywhere                   ALLOW       10.0.0.0/24\n", None),
        ("Anywhere on enp5s0         ALLOW       Anywhere\n", None),
        ("OpenSSH                    ALLOW       Anywhere\n", None),  # what a profile allows
        ("2001:470:26:307:1:2:3:4    ALLOW       2001:470:26:307::/64\n", None),
    ],
    ids=lambda value: (value or "nothing").strip(),
)
def test_ufw_may_drop_soft_roce_that_its_list_does_not_allow(row: str, found: str | None) -> None:
    shown_ = next(shown(f"{ON_N1}ibv_rc_pingpong -d rxe0\n{ON_N1}ufw status\n{UFW}{row}"), None)
    assert (shown_ and shown_.causes[0]) == found
    assert shown_ is None or (shown_.if_unanswered and not shown_.is_certain)


def test_ufw_has_no_say_of_an_adapter() -> None:
    listed = f"{ON_N1}ufw status\n{UFW}{ALLOWED}"
    assert first(f"{ON_N1}ibv_rc_pingpong -d rxe0\n{listed}") is not None
    assert first(f"{ON_N1}ib_write_bw -d mlx5_0\n{ON_N1}rdma link\nlink rxe0/1\n{listed}") is None
    assert first(listed) is None
    passes = listed.replace("active\n", "active\nDefault: allow (incoming), allow (outgoing)\n")
    assert first(f"{ON_N1}ibv_rc_pingpong -d rxe0\n{passes}") is None


@pytest.mark.parametrize(
    ("there", "found"),
    [("active", ("helper-service-down", 2, True)), ("inactive", None), ("", None)],
    ids=["at the other host it runs", "at neither", "of the other nothing is known"],
)
def test_iwpmd_runs_at_one_of_two_hosts(there: str, found: tuple[str, int, bool] | None) -> None:
    asked = "[root@{} ~]# systemctl is-active iwpmd\n{}\n"
    text = asked.format("n1", "inactive") + (asked.format("n2", there) if there else "")
    assert first(text) is None
    assert (
        first(f"{text}[root@n1 ~]# rping -c -a 10.1.0.2\nsiw0: RDMA_CM_EVENT_REJECTED\n") == found
    )
    assert (
        first(f"{text}[root@n1 ~]# rping -c -a 10.1.0.2\nmlx5_0: RDMA_CM_EVENT_REJECTED\n") is None
    )


SLOT = "[   18.2] mlx5_core 0000:{}:00.0: {} Gb/s available PCIe bandwidth{}\n"
WHOLE = SLOT.format("18", "504.112", " (32.0 GT/s PCIe x16 link)")
LIMITED = (
    ", limited by {} GT/s PCIe {} link at 0000:58:01.0 "
    "(capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)"
)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (WHOLE, None),
        (WHOLE + SLOT.format("5d", "252.056", LIMITED.format("32.0", "x8")), 2),
        (SLOT.format("5d", "252.056", LIMITED.format("32.0", "x8")), None),
        (SLOT.format("5d", "126.024", LIMITED.format("32.0", "x4")), 1),
        (SLOT.format("5d", "252.048", LIMITED.format("16.0", "x16")), None),
        (SLOT.format("5d", "63.008", LIMITED.format("8.0", "x8")), 1),
    ],
    ids=[
        "as wide as it may be",
        "half as wide as its neighbour",
        "half as wide",
        "a quarter as wide",
        "an older host",
        "an eighth",
    ],
)
def test_a_slot_that_limits_an_adapter(lines: str, found: int | None) -> None:
    assert first(lines) == (("pcie-link-narrow", found, False) if found else None)


def test_a_kernel_before_5_6_says_it_without_pcie() -> None:
    narrow = SLOT.format("5d", "63.008", LIMITED.format("8", "x8")).replace("GT/s PCIe", "GT/s")
    assert first(narrow) == ("pcie-link-narrow", 1, False)


def test_nodes_that_root_alone_may_open_where_a_program_has_no_context() -> None:
    node = "crw------- 1 root root 231, 192 Apr  2 11:20 uverbs0\n"
    context = "$1 = (struct ibv_context *) {}\n$2 = 13\n"
    assert first(node + context.format("0x0")) == ("uverbs-node-not-openable", 1, True)
    assert first(node + context.format("0x5555555592a0")) is None
    assert first(node + context.format("0x0").replace("13", "19")) is None
    assert first(node.replace("crw-------", "crw-rw-rw-") + context.format("0x0")) is None


def test_what_ibgda_needs_of_the_driver_of_gpus() -> None:
    off = "EnableStreamMemOPs: 0\n"
    failed = "transport.cpp:nvshmemi_transport_init:275: init failed for transport: IBGDA\n"
    assert first(failed + off) == ("gpu-peer-mapping-off", 2, True)
    assert first(off) is None


RXE = "link rxe0/1 state ACTIVE physical_state LINK_UP netdev enp3s0\n"
ZONE = """public (active)
  target: {target}
  interfaces: enp3s0
  services: ssh
  ports: {ports}
  protocols: {protocols}
  rich rules: {rules}
"""


@pytest.mark.parametrize(
    ("change", "is_shown"),
    [
        ({}, True),
        ({"ports": "18515/tcp 4791/udp"}, False),
        ({"ports": "4000-5000/udp"}, False),
        ({"protocols": "udp"}, False),
        ({"rules": 'rule family="ipv4" accept'}, False),
        ({"target": "ACCEPT"}, False),
    ],
    ids=["TCP alone", "RoCE's port", "a range", "a protocol", "a rule", "all"],
)
def test_firewalld_that_lets_in_no_roce_where_it_passes_the_kernels_filters(
    change: dict[str, str], is_shown: bool
) -> None:
    given = {"target": "default", "ports": "18515/tcp", "protocols": "", "rules": "", **change}
    zone = ZONE.format(**given)
    assert first(RXE + zone) == (("roce-port-dropped", 2, False) if is_shown else None)
    assert first(RXE.replace("rxe0", "mlx5_0") + zone) is None


def test_a_host_that_answers_packets_of_roce_with_a_prohibition() -> None:
    sent = "14:07:31.2 IP 192.0.2.11.61440 > 192.0.2.12.{}: UDP, length 1040\n"
    answered = (
        "14:07:31.3 IP 192.0.2.12 > 192.0.2.11: ICMP host 192.0.2.12 unreachable - admin "
        "prohibited filter, length 556\n"
    )
    assert first(sent.format(4791) + answered) == ("roce-port-dropped", 2, True)
    assert first(sent.format(53) + answered) is None


def test_a_container_that_has_a_node_and_no_device_where_namespaces_are_exclusive() -> None:
    inside = "rdma_cm\nuverbs0\nNo IB devices found\n"
    assert first(inside + "netns exclusive\n") == ("device-in-other-netns", 4, True)
    assert first(inside + "netns shared\n") is None
    assert first("netns exclusive\n") is None


def test_a_partition_that_is_down_where_the_port_is_up() -> None:
    brief = "ib0          UP    10.30.2.207/16\nib0.8001@ib0 {}    10.31.2.207/16\n"
    assert first(brief.format("DOWN")) == ("pkey-index", 2, True)
    assert first(brief.format("UP  ")) is None
    assert first(brief.format("DOWN").replace(" UP ", " DOWN ")) is None


def test_the_driver_of_an_adapter_without_its_part_of_rdma() -> None:
    listed = f"{ON_N1}lsmod | grep mlx\nmlx5_core            1310720  0\n"
    none = f"{ON_N1}ibv_devinfo\nNo IB devices found\n"
    assert first(listed) == ("kernel-module-missing", 2, False)
    assert first(none + listed) == ("kernel-module-missing", 4, True)
    assert first(none + listed + "mlx5_ib  45056 0\n") is None
