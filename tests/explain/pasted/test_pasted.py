"""Listings of a terminal: a healthy one, and the one thing in it that is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.explain.pasted import shown
from rdmadiag.explain.pasted.session import hosts_of, parts

ON_N1, ON_N2 = "[root@n1 ~]# ", "[root@n2 ~]# "


def first(text: str) -> tuple[str, int, bool] | None:
    """The first cause of what is shown first, the number of its line, and whether it is certain."""
    return next(((e.causes[0], e.line.number, e.is_certain) for e in shown(text)), None)


@pytest.mark.parametrize(
    ("line", "host", "command"),
    [
        ("[root@n1 ~]# ibstat mlx5_0", "n1", "ibstat mlx5_0"),
        ("user@n1:~/run$ show_gids", "n1", "show_gids"),
        ("user@studio ~ % ibv_devices", "studio", "ibv_devices"),
        ("root@n1:~# ssh n2 'ibstat'", "n2", "ibstat'"),
        ("$ ibstat", "", "ibstat"),
        ("n1:~ # ibstat", "n1", "ibstat"),
        ("user@n1:~> ibstat", "n1", "ibstat"),
        ("core@n1 ~ $ ibstat", "n1", "ibstat"),
        ("arch ~ > ibstat", "", "ibstat"),
        ("# ibstat", "", "ibstat"),
        ("[root@n1 ~]#", "n1", ""),
    ],
)
def test_a_prompt_names_the_host_and_the_command(line: str, host: str, command: str) -> None:
    (part,) = parts(f"{line}\nprinted\n")
    assert (part.host, part.command, [each.text for each in part.lines]) == (
        host,
        command,
        ["printed"],
    )


@pytest.mark.parametrize(
    "line",
    ["[node1:0] NCCL INFO $ 3", "[12:01:02] a line # remark", "a@b.c wrote: 5 % less", "# ok"],
)
def test_a_line_of_a_log_is_no_prompt(line: str) -> None:
    assert hosts_of(parts(line)) == 0


def readings(name: str, first_: int, last: int, wait: str = "sleep 10; ") -> str:
    row = f"     {name}: {{}}\n"
    command = "ethtool -S ens1f0np0"
    return (
        f"{ON_N1}{command}\n{row.format(first_)}{ON_N1}{wait}{command}\n{row.format(last)}{ON_N1}\n"
    )


@pytest.mark.parametrize(
    ("name", "rise", "found"),
    [
        ("rx_symbol_err_phy", 10, ("cable-or-module", 4, True)),
        ("rx_symbol_err_phy", 9, None),
        ("link_down_events_phy", 1, ("link-flaps", 4, True)),
        ("tx_pause_storm_warning_events", 1, ("pause-storm", 4, True)),
        ("rx_prio3_pause_duration", 3_000_000, ("pause-storm", 4, True)),
        ("rx_prio3_pause_duration", 2_900_000, None),
        ("out_of_sequence", 100, ("slow-path", 4, False)),
        ("rx_packets_phy", 10_000_000, None),
    ],
)
def test_a_counter_that_rises_between_two_readings(
    name: str, rise: int, found: tuple[str, int, bool] | None
) -> None:
    assert first(readings(name, 7, 7 + rise)) == found


def test_how_long_a_pause_was_is_a_share_of_a_time_that_is_known() -> None:
    assert first(readings("rx_prio3_pause_duration", 7, 9_000_000, wait="")) is None


def test_counters_of_several_devices_in_one_loop_are_no_two_readings() -> None:
    loop = "for i in eth1 eth2; do ethtool -S $i; done"
    rows = "     rx_symbol_err_phy: 1\n     rx_symbol_err_phy: 9000\n"
    assert first(f"{ON_N1}{loop}\n{rows}{ON_N1}{loop}\n{rows}") is None


def test_the_host_is_that_of_the_prompt() -> None:
    (found,) = shown(readings("rx_symbol_err_phy", 7, 70))
    assert found.host == "n1"
    (found,) = shown("\tModule temperature high alarm : On\n")
    assert found.host == ""


def test_counters_of_two_devices_are_not_compared() -> None:
    text = readings("rx_symbol_err_phy", 1, 9000)
    assert first(text.replace("sleep 10; ethtool -S ens1f0np0", "ethtool -S ens2f0np0")) is None


def test_an_error_event_of_a_storm_is_one_without_a_second_reading() -> None:
    row = "     tx_pause_storm_error_events: {}\n"
    assert first(f"{ON_N1}ethtool -S eth1\n{row.format(7)}") == ("pause-storm", 2, True)
    assert first(f"{ON_N1}ethtool -S eth1\n{row.format(0)}") is None


def test_perfquery_fills_with_dots() -> None:
    row = "SymbolErrorCounter:..............{}\n"
    text = f"{ON_N1}perfquery\n{row.format(2114)}{ON_N1}sleep 60; perfquery\n{row.format(3902)}"
    assert first(text) == ("cable-or-module", 4, True)


def ibstat(state: str = "Active", rate: str = "200", layer: str = "InfiniBand") -> str:
    return (
        f"CA 'mlx5_0'\n\tCA type: MT4123\n\tPort 1:\n\t\tState: {state}\n"
        f"\t\tPhysical state: LinkUp\n\t\tRate: {rate}\n\t\tLink layer: {layer}\n"
    )


def test_a_link_of_10_gbit_s_is_slow_for_an_adapter_of_today() -> None:
    assert first(f"{ON_N1}ibstat\n{ibstat()}") is None
    assert first(f"{ON_N1}ibstat\n{ibstat(rate='10')}") == ("cable-or-module", 7, True)
    assert first(f"{ON_N1}ibstat\n{ibstat(state='Down', rate='10')}") is None
    assert first(f"{ON_N1}ibstat\n{ibstat(rate='10').replace('MT4123', 'MT25408')}") is None


def devinfo(mtu: str, layer: str = "Ethernet") -> str:
    return (
        "hca_id:\tmlx5_0\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n"
        f"\t\t\tactive_mtu:\t\t{mtu}\n\t\t\tlink_layer:\t\t{layer}\n"
    )


def test_two_hosts_with_different_mtus_of_ethernet() -> None:
    large, small = devinfo("4096 (5)"), devinfo("1024 (3)")
    two = f"{ON_N1}ibv_devinfo\n{{}}{ON_N2}ibv_devinfo\n{{}}"
    assert first(two.format(large, large)) is None
    assert first(two.format(large, small)) == ("mtu-mismatch", 11, True)
    assert first(two.replace("n2", "n1").format(large, small)) is None
    of_ib = (devinfo("4096 (5)", "InfiniBand"), devinfo("2048 (4)", "InfiniBand"))
    assert first(two.format(*of_ib)) is None


def test_a_loop_names_the_host_before_what_it_printed() -> None:
    loop = "$ for h in n1 n2; do echo == $h; ssh $h ibv_devinfo; done\n"
    text = f"{loop}== n1\n{devinfo('4096 (5)')}== n2\n{{}}"
    assert first(text.format(devinfo("1024 (3)"))) == ("mtu-mismatch", 12, True)
    assert first(text.format(devinfo("4096 (5)"))) is None


def test_a_port_that_is_set_to_ethernet_beside_ports_of_infiniband() -> None:
    down = ibstat(state="Down", layer="Ethernet")
    asked = f"{ON_N1}ibstat\n{down}{ON_N1}mlxconfig -d /dev/mst/x q\n        LINK_TYPE_P1  ETH(2)\n"
    assert first(asked) is None
    assert first(f"{asked}{ON_N2}ibstat\n{ibstat()}") == ("port-type-other", 10, True)


def test_a_roce_device_whose_netdev_is_not_seen() -> None:
    row = "link {} state ACTIVE physical_state LINK_UP {}\n"
    assert first(row.format("mlx5_3/1", "")) == ("netdev-in-other-netns", 1, True)
    assert first(row.format("mlx5_3/1", "netdev eth3")) is None
    assert first(row.format("efa_0/1", "")) is None


def test_one_of_many_ports_that_is_down_may_be_meant_so() -> None:
    rows = "".join(f"mlx5_{n} port 1 ==> ib{n} (Up)\n" for n in range(4))
    assert first(f"{rows}mlx5_9 port 1 ==> ib9 (Down)\n") == ("port-down", 5, False)
    assert first(f"{rows}mlx5_9 port 1 ==> ens9f1np1 (Down)\n") is None
    assert first("mlx5_0 port 1 ==> ib0 (Up)\nmlx5_9 port 1 ==> ib9 (Down)\n") is None


def test_an_interface_of_a_device_that_nobody_brought_up() -> None:
    row = "link mlx5_1/1 state DOWN netdev eth1\n7: {}: <BROADCAST{}> mtu 1500\n"
    assert first(row.format("eth1", "")) == ("interface-down", 2, False)
    assert first(row.format("eth1", ",UP")) is None
    assert first(row.format("eth2", "")) is None


def test_two_hosts_whose_rdma_cm_takes_different_types() -> None:
    asked = f"{ON_N1}cma_roce_mode -d mlx5_0 -p 1\nRoCE v2\n{ON_N2}cma_roce_mode -d mlx5_0 -p 1\n"
    assert first(f"{asked}IB/RoCE v1\n") == ("gid-types-differ", 2, True)
    assert first(f"{asked}RoCE v2\n") is None


LINK_LOCAL = "fe80:0000:0000:0000:966d:aeff:fed4:2e10"
MAPPED = "0000:0000:0000:0000:0000:ffff:0a00:0848"


def gid(index: int, gid_: str, version: str = "v2") -> str:
    return f"mlx5_2\t1\t{index}\t{gid_}\t\t\t{version}\tens4f0np0\n"


def test_a_table_of_link_local_gids_alone() -> None:
    both = f"{ON_N1}show_gids mlx5_2\n{gid(0, LINK_LOCAL)}{{}}"
    assert first(both.format("n_gids_found=1\n")) == ("no-usable-gid", 2, True)
    assert first(both.format("")) == ("no-usable-gid", 2, False)  # perhaps cut off
    assert first(both.format(gid(1, MAPPED))) is None
    assert first(both.format("").replace("show_gids mlx5_2", "show_gids | head -3")) is None


def test_a_row_that_is_of_another_kind_on_another_host() -> None:
    here = f"{ON_N1}show_gids\n{gid(3, MAPPED)}"
    assert first(f"{here}{ON_N2}show_gids\n{gid(3, MAPPED)}") is None
    there = f"{ON_N2}show_gids\n{gid(3, MAPPED, 'v1')}"
    assert first(f"{here}{there}") == ("gid-index-or-family", 4, False)


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
        ("\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16 (ok)\n", ("slow-path", 1, False)),
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


MAC = "user@mini ~ % "


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{MAC}rdma_ctl status\ndisabled\n", ("rdma-disabled", 2, True)),
        (f"{MAC}rdma_ctl status\nenabled\n", None),
        (
            f"{MAC}rdma_ctl status\nenabled\n{MAC}ifconfig bridge0\n\tmember: en2 flags=3\n",
            ("port-in-bridge", 4, True),
        ),
        (f"{MAC}ifconfig bridge0\n\tmember: en2 flags=3\n", None),  # as it comes
        (
            (
                f"{MAC}ibv_devices\n{MAC}system_profiler SPThunderboltDataType\n"
                "          Speed: Up to 40 Gb/s\n"
            ),
            ("thunderbolt-4", 3, True),
        ),
        (
            (
                f"{MAC}ibv_devices\n{MAC}system_profiler SPThunderboltDataType\n"
                "          Speed: Up to 40 Gb/s\n          Speed: Up to 80 Gb/s\n"
            ),
            None,
        ),
        (
            f"{MAC}ibv_devinfo -v\nhca_id:\trdma_en3\n\t\t\tGID[  0]:\t\tfe80::1\n",
            ("no-ipv4-gid", 3, False),
        ),
        (
            (
                f"{MAC}ibv_devinfo -v\nhca_id:\trdma_en3\n\t\t\tGID[  0]:\t\tfe80::1\n"
                "\t\t\tGID[  1]:\t\t::ffff:10.0.0.1\n"
            ),
            None,
        ),
        (
            (
                f"{MAC}ibv_devices\n{MAC}ifconfig en2\n\tinet 10.0.9.1 netmask 0xffffff00\n"
                f"{MAC}ifconfig en3\n\tinet 10.0.9.2 netmask 0xffffff00\n"
            ),
            ("shared-subnet", 5, True),
        ),
        (
            (
                f"{MAC}ibv_devices\n{MAC}ifconfig en2\n\tinet 10.0.9.1 netmask 0xffffff00\n"
                f"{MAC}ifconfig en3\n\tinet 10.0.8.2 netmask 0xffffff00\n"
            ),
            None,
        ),
        (
            (
                f'{MAC}cat hosts.json\n["rdma_en5"]\n{MAC}ibv_devinfo\nhca_id:\trdma_en5\n'
                "\t\t\tstate:\t\t\tPORT_DOWN (1)\n"
            ),
            ("port-down", 5, True),
        ),
        (
            (
                f'{MAC}cat hosts.json\n["rdma_en4"]\n{MAC}ibv_devinfo\nhca_id:\trdma_en5\n'
                "\t\t\tstate:\t\t\tPORT_DOWN (1)\n"
            ),
            None,
        ),
    ],
)
def test_what_a_mac_lists(text: str, found: tuple[str, int, bool] | None) -> None:
    assert first(text) == found


def test_a_table_of_a_mac_that_may_be_cut_off_is_not_certain() -> None:
    table = f"{MAC}ibv_devinfo -v\nhca_id:\trdma_en3\n\t\t\tGID[  0]:\t\tfe80::1\n"
    assert first(table) == ("no-ipv4-gid", 3, False)
    assert first(f"{table}{MAC}sw_vers\nProductName: macOS\n") == ("no-ipv4-gid", 3, True)


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


def test_a_loop_that_waits_reads_one_device_again() -> None:
    rows = "     rx_prio3_pause_duration: {}\n"
    loop = f"{ON_N1}for i in 1 2 3; do ethtool -S eth1; sleep 1; done\n"
    paused = "".join(rows.format(n * 999_000) for n in range(1, 4))
    assert first(f"{loop}{paused}") == ("pause-storm", 4, True)
    assert first(f"{loop}{paused}".replace("eth1", "eth$i")) is None


def ping(size: int, received: int) -> str:
    summary = f"3 packets transmitted, {received} received, 0% packet loss, time 2041ms\n"
    return f"{ON_N1}ping -c 3 -M do -s {size} 10.40.0.9\n{summary}"


def test_large_packets_that_get_lost_where_small_ones_do_not() -> None:
    assert first(ping(1472, 3) + ping(8972, 0)) == ("mtu-too-large", 4, True)
    assert first(ping(1472, 3) + ping(8972, 3)) is None
    assert first(ping(1472, 0) + ping(8972, 0)) is None  # nothing gets through


def test_a_route_that_refuses_what_somebody_looked_for() -> None:
    routes = f"{ON_N1}ip route\nunreachable 10.200.0.0/16 proto static metric 20\n"
    looked = f"{ON_N1}ip route get {{}}\nRTNETLINK answers: No route to host\n"
    assert first(routes) is None
    assert first(routes + looked.format("10.200.4.14")) == ("route-unreachable", 2, True)
    assert first(routes + looked.format("10.201.4.14")) is None


def test_tcp_without_a_route_to_a_host_that_answers_pings() -> None:
    answers = f"{ON_N1}ping -c1 n2\n1 packets transmitted, {{}} received, 0% packet loss\n"
    tcp = f"{ON_N1}nc -vz n2 18515\nNcat: No route to host.\n"
    assert first(answers.format(1) + tcp) == ("firewall-rejects", 4, True)
    assert first(answers.format(0) + tcp) is None


def test_a_variable_that_names_devices_which_the_host_lists_by_other_names() -> None:
    listed = f"{ON_N1}ibv_devices\n    rocep65s0f0     \tb83fd20300c1a230\n"
    named = f"{ON_N1}cat /etc/nccl.conf\nNCCL_IB_HCA={{}}\n"
    assert first(listed + named.format("mlx5_0,mlx5_1")) == ("device-renamed", 4, True)
    assert first(listed + named.format("rocep65s0f0:1")) is None
    assert first(listed + named.format("rocep65")) is None  # of NCCL a prefix is enough
    assert (
        first(listed.replace("ibv_devices", "ibv_devices | head -3") + named.format("mlx5_0"))
        is None
    )


def test_an_rdma_cgroup_that_has_reached_its_limit() -> None:
    most = f"{ON_N1}cat rdma.max\nmlx5_0 hca_handle=64 hca_object=2000\n"
    now = f"{ON_N1}cat rdma.current\nmlx5_0 hca_handle=32 hca_object={{}}\n"
    assert first(most + now.format(2000)) == ("rdma-cgroup", 4, True)
    assert first(most + now.format(1999)) is None


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
