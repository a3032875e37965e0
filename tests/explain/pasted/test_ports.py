"""Ports in a paste, of one host or of two."""

import pytest

from tests.explain.pasted.answer import ON_N1, ON_N2, first


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


def test_a_device_of_iwarp_and_one_of_roce_do_not_connect() -> None:
    rows = "hca_id:\tone\n\ttransport:\t\t\t{}\n"
    of_iwarp, of_roce = rows.format("iWARP (1)"), rows.format("InfiniBand (0)")
    asked = "ibv_devinfo\n"
    both = f"{ON_N1}{asked}{of_roce}{ON_N2}{asked}{of_iwarp}"
    assert first(both) == ("link-layers-differ", 6, True)
    assert first(f"{ON_N1}{asked}{of_roce}{ON_N2}{asked}{of_roce}") is None
    assert first(f"{ON_N1}{asked}{of_roce}{of_iwarp}") is None


def test_one_port_of_many_with_fewer_lanes() -> None:
    rows = [f"mlx5_{n} 4: ACTIVE 400 Gb/sec (4X NDR)\n" for n in range(5)]
    half = "mlx5_6 4: ACTIVE 200 Gb/sec (2X NDR)\n"
    assert first("".join([*rows[:4], half])) == ("cable-or-module", 5, False)
    assert first("".join([*rows, half, half])) is None  # two ends of a splitter, of a design
    assert first("".join(rows)) is None
    assert first("".join([*rows[:3], half])) is None  # too few to say what is usual
    assert first("".join([*rows[:4], half.replace("2X NDR", "4X HDR")])) is None


def test_one_device_that_is_listed_twice_with_another_mtu() -> None:
    row = "\t\t\tmax_mtu:\t\t4096 (5)\n\t\t\tactive_mtu:\t\t{}\n"
    here = f"# ibv_devinfo -d mlx5_0 | grep mtu   <- decode\n{row.format('4096 (5)')}"
    there = f"# ibv_devinfo -d mlx5_{{}} | grep mtu   <- prefill\n{row.format('1024 (3)')}"
    assert first(here + there.format(0)) == ("mtu-mismatch", 6, True)
    assert first(here + there.format(1)) is None
    assert first(here + here) is None


def test_a_device_without_a_guid_whose_port_is_down() -> None:
    rows = "CA 'mlx5_0'\n\tNode GUID: 0x{:016x}\n\tPort 1:\n\t\tState: {}\n"
    assert first(rows.format(0, "Down")) == ("guid-zero", 2, True)
    assert first(rows.format(0xB83F_D203_00C1_A230, "Down")) is None
    assert first(rows.format(0, "Active")) is None


def test_two_hosts_of_which_one_has_iwarp_alone() -> None:
    listed = "{}rdma link\nlink {}p24s0f0/1 state ACTIVE physical_state LINK_UP netdev eth2\n"
    iwarp, roce = listed.format(ON_N1, "iw"), listed.format(ON_N2, "roce")
    assert first(iwarp + listed.format(ON_N2, "iw")) is None
    assert first(iwarp + roce) == ("link-layers-differ", 2, True)
    assert first(iwarp + "\nserver:\n" + listed.format("# ", "roce")) is not None
    assert first(iwarp + listed.format(ON_N1, "roce")) is None  # the driver was loaded anew
    one = "{}rdma link show {}p24s0f0/1\nlink {}p24s0f0/1 state ACTIVE netdev eth2\n"
    assert first(one.format(ON_N1, "iw", "iw") + one.format(ON_N2, "roce", "roce")) is None
    loaded = f"{ON_N2}modprobe irdma roce_ena=1\n"
    assert first(iwarp + loaded + roce) is None
    both = iwarp + "link rocep9s0/1 state ACTIVE physical_state LINK_UP netdev eth3\n"
    assert first(both) is None
    assert first(both + roce) is None


def test_two_computers_of_windows_of_which_one_has_iwarp_alone() -> None:
    get = 'Get-NetAdapterAdvancedProperty -DisplayName "NetworkDirect Technology"'
    head = "Name        DisplayName              DisplayValue\n"
    rows = "SLOT 3 P1   NetworkDirect Technology {}\nSLOT 3 P2   NetworkDirect Technology {}\n"
    here = f"PS C:\\> {get}\n{head}"
    there = f"PS C:\\> Invoke-Command FS01 {{{{ {get} }}}}\n{head}".format()
    iwarp, roce = rows.format("iWarp", "iWARP"), rows.format("RoCEv2", "RoCE")
    assert first(here + iwarp + there + iwarp) is None
    assert first(here + iwarp + there + roce) == ("link-layers-differ", 3, True)
    assert first(here + iwarp + f"[FS01]: {here}" + roce) == ("link-layers-differ", 3, True)
    assert first(here + iwarp + here + roce) is None  # it was set anew
    changed = "PS C:\\> Set-NetAdapterAdvancedProperty -Name SLOT* -DisplayValue RoCEv2\n"
    assert first(here + iwarp + changed + there + roce) is None
    wide = head.replace("\n", " RegistryKeyword RegistryValue\n")
    five = (here + iwarp + there + roce).replace(head, wide)
    assert first(five) == ("link-layers-differ", 3, True)
    assert first(here + iwarp + there + rows.format("RoCEv2", "iWarp")) is None
    assert first(here.replace("Technology", "Functionality") + iwarp + there + roce) is None


def test_a_slow_link_is_why_the_subnet_manager_refuses_a_group() -> None:
    slow = f"{ON_N1}ibstat\n{ibstat(rate='10')}"
    join = "ib0: multicast join failed for ff12:401b:ffff:0:0:0:ffff:ffff, status {}"
    refused = f"{ON_N1}dmesg\n{join}\n"
    assert first(refused.format(-110) + slow) == ("cable-or-module", 9, True)
    assert first(refused.format(-22) + slow) == ("multicast-refused", 9, True)
    elsewhere = refused.replace(ON_N1, ON_N2)
    assert first(elsewhere.format(-22) + slow) == ("cable-or-module", 9, True)


def listing(name: str, state: str, layer: str, rate: str = "400") -> str:
    return (
        f"CA '{name}'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: {state}\n"
        f"\t\tRate: {rate}\n\t\tLink layer: {layer}\n"
    )


def test_one_port_each_of_two_hosts_of_which_one_is_of_the_other_type() -> None:
    here = f"{ON_N1}ibstat\n{listing('ibp5s0', 'Active', 'InfiniBand')}"
    there = f"{ON_N2}ibstat\n{listing('rocep5s0', 'Down', 'Ethernet')}"
    assert first(here + there) == ("port-type-other", 14, True)
    assert first(here + there.replace("Down", "Active")) is None
    assert first(here + there + listing("ibp6s0", "Active", "InfiniBand")) is None


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        (("Active", "Active"), None),
        (("Active", "Down"), ("port-down", 46, False)),
        (("Rate: 400", "Rate: 200"), ("cable-or-module", 47, False)),
        (("Rate: 400", "Rate: 800"), None),
    ],
    ids=["all are alike", "one is down", "one is slower", "one is faster"],
)
def test_one_of_many_ports_of_a_host(
    change: tuple[str, str], answer: tuple[str, int, bool] | None
) -> None:
    ports = [listing(f"mlx5_{n}", "Active", "InfiniBand") for n in range(8)]
    ports[7] = ports[7].replace(*change)
    assert first("".join(ports)) == answer
    assert first("".join(ports[5:])) is None  # of three nobody knows


def test_a_port_of_omni_path_without_a_fabric_manager() -> None:
    opainfo = "   PortState:     {}\n   LinkSpeed      Act: 25Gb\n"
    assert first(opainfo.format("Init (LinkUp)")) == ("no-subnet-manager", 1, True)
    assert first(opainfo.format("Down (Offline)")) == ("port-down", 1, False)
    assert first(opainfo.format("Active")) is None


@pytest.mark.parametrize(
    ("row", "active", "other"),
    [
        ('{{"ifname":"mlx5_0","port":{n},"state":"{s}","physical_state":"x"}}', "ACTIVE", "DOWN"),
        ('node_infiniband_state_id{{device="mlx5_0",port="{n}"}} {s}', "4", "1"),
        ("vmrdma{n}  nmlx5_rdma  {s}  1024  25 Gbps", "Active", "Down"),
    ],
    ids=["rdma -j", "node_exporter", "esxcli"],
)
def test_no_port_is_active_in_what_others_print(row: str, active: str, other: str) -> None:
    down, up = row.format(n=1, s=other), row.format(n=2, s=active)
    assert first(f"{down}\n") == ("port-down", 1, True)
    assert first(f"{down}\n{up}\n") is None
