"""Counters of sysfs, RDMA netlink, rtnetlink and ethtool: what is read, and what is not again."""

import struct
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import counted
from lab.mac import macs
from lab.machine import with_counters
from lab.netdevs import BondData, LegData, NetDev
from lab.nldev_msg import decoded
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.counter_catalogue import Group, meaning
from rdmadiag.facts.counters import CounterSource, Spared, Wanted, narrowed, remembered
from rdmadiag.host import netlink
from rdmadiag.host.live import LiveHost
from rdmadiag.sources import counters, mac_counters, netdev_counters, nldev_counters
from rdmadiag.sources.counters import read_counters
from rdmadiag.sources.netdev_counters import STATS64, read_netdev_counters

PORT, HW, NLDEV = CounterSource.PORT, CounterSource.HW, CounterSource.NLDEV
FOLDER = "/sys/class/infiniband/mlx5_0/ports/1"
REFUSED = Missing(Why.UNSUPPORTED, f"{FOLDER}/counters/VL15_dropped: EINVAL")


@pytest.fixture
def host(roce, host_in_memory):
    """The healthy machine with counters: some of the first port are not 0."""
    machine = with_counters(roce).with_port(
        0,
        0,
        counters=counted.PORT_COUNTERS | {"symbol_error": 12},
        hw_counters=counted.MLX5_COUNTERS | {"out_of_sequence": 17},
    )
    netdev = replace(machine.netdevs[0], stats={"rx_bytes": 2**40, "rx_dropped": 3}, pause=(5, 6))
    return host_in_memory(machine.change(netdevs=(netdev,)).recording())


@pytest.fixture
def sample(host, soon):
    return read_counters(host, soon)


def found(facts, source, device="mlx5_0", port=1):
    (one,) = [each for each in facts.sets if each.key == (source, device, port, None)]
    return one


def refuse_nldev(host):
    host.recording.refuse("netlink", "nldev-get", Missing(Why.DENIED, "EPERM"))


def asked(host, question, part):
    return [subject for each, subject in host.asked if each == question and part in subject]


# --- sysfs and nldev -----------------------------------------------------------------------


def test_each_port_has_both_folders_and_the_second_witness(sample):
    keys = [each.key for each in sample.sets]
    assert keys == [
        (source, device, 1, None) for device in ("mlx5_0", "mlx5_1") for source in (PORT, HW, NLDEV)
    ]
    assert found(sample, PORT).values == counted.PORT_COUNTERS | {"symbol_error": 12}
    assert found(sample, HW).values == counted.MLX5_COUNTERS | {"out_of_sequence": 17}
    assert found(sample, NLDEV).values == found(sample, HW).values


def test_a_sample_says_which_boot_which_devices_and_when(sample):
    assert sample.boot == counted.BOOT_ID
    assert sample.names == ("mlx5_0", "mlx5_1")
    assert [(each.name, each.index, each.driver) for each in sample.devices] == [
        ("mlx5_0", 0, "mlx5_core"),
        ("mlx5_1", 1, "mlx5_core"),
    ]
    (port,) = sample.devices[0].ports
    assert (port.number, port.link_layer, port.netdev) == (1, "ethernet", "eth0")
    assert abs(sample.seconds - time.clock_gettime(time.CLOCK_BOOTTIME)) < 60


def test_sysfs_is_read_before_nldev_on_every_port(host, sample):
    order = [subject for question, subject in host.asked if question in ("list", "netlink")]
    for device, index in (("mlx5_0", 0), ("mlx5_1", 1)):
        folder = order.index(f"/sys/class/infiniband/{device}/ports/1/hw_counters")
        assert folder < order.index(f"nldev-stat-get-{index}-1")


def test_lifespan_is_no_counter(host, soon):
    recording = host.recording
    recording.files[f"{FOLDER}/hw_counters/lifespan"] = b"10\n"
    recording.listings[f"{FOLDER}/hw_counters"] += ("lifespan",)
    one = found(read_counters(host, soon), HW)
    assert one.lifespan_ms == 10
    assert "lifespan" not in one.values
    assert one.refused == {}


def test_one_refused_counter_costs_no_other(host, soon):
    host.recording.refuse("read", f"{FOLDER}/counters/VL15_dropped", REFUSED)
    one = found(read_counters(host, soon), PORT)
    assert one.refused == {"VL15_dropped": REFUSED}
    assert one.values["symbol_error"] == 12


@pytest.mark.parametrize("content", [b"", b"a lot", b"-1", b"1 2", b"99999999999999999999"])
def test_what_is_no_count_is_malformed_and_names_its_file(content, host, soon):
    host.recording.files[f"{FOLDER}/counters/symbol_error"] = content
    missing = found(read_counters(host, soon), PORT).refused["symbol_error"]
    assert missing.why is Why.MALFORMED
    assert missing.detail.startswith(f"{FOLDER}/counters/symbol_error: ")


def test_a_driver_without_counters_in_netlink_is_unsupported(host, soon):
    refused = Missing(Why.UNSUPPORTED, "netlink nldev-stat-get-0-1: EINVAL")
    host.recording.refuse("netlink", "nldev-stat-get-0-1", refused)
    facts = read_counters(host, soon)
    assert found(facts, NLDEV).values == refused
    assert found(facts, HW).values["out_of_sequence"] == 17


def test_counters_of_the_device_itself_are_a_set_without_a_port(host, soon):
    folder = "/sys/class/infiniband/mlx5_0/hw_counters"
    host.recording.listings[folder] = ("resets",)
    host.recording.files[f"{folder}/resets"] = b"4\n"
    assert found(read_counters(host, soon), CounterSource.DEVICE_HW, port=None).values == {
        "resets": 4
    }


def add(host, folder, **files):
    host.recording.listings[folder] = tuple(files)
    for name, value in files.items():
        host.recording.files[f"{folder}/{name}"] = f"{value}\n".encode()


def test_messages_of_the_connection_manager_are_a_set_by_their_paths(host, soon):
    add(host, f"{FOLDER}/cm_tx_msgs", req=7, rtu=5)
    add(host, f"{FOLDER}/cm_tx_retries", req=2, rtu=0)
    one = found(read_counters(host, soon), CounterSource.CM)
    assert one.values == {
        "cm_tx_msgs/req": 7,
        "cm_tx_msgs/rtu": 5,
        "cm_tx_retries/req": 2,
        "cm_tx_retries/rtu": 0,
    }
    groups = {
        name: meaning(CounterSource.CM, name, None, extended=True).group for name in one.values
    }
    assert groups["cm_tx_msgs/req"] is Group.TRAFFIC
    assert groups["cm_tx_retries/req"] is Group.CM_RETRIES


def test_numbers_of_a_driver_are_a_set_of_the_device(host, soon):
    device = "/sys/class/infiniband/mlx5_0"
    host.recording.files |= {f"{device}/fw_pages": b"1824\n", f"{device}/reg_pages": b"0\n"}
    host.recording.listings[f"{device}/mr_cache"] = ("12", "2", "rel_imm", "rel_timeout")
    add(host, f"{device}/mr_cache/2", cur=4, limit=8, miss=1, size=4)
    add(host, f"{device}/mr_cache/12", cur=0, limit=0, miss=3, size=0)
    host.recording.listings[f"{device}/mad_sa_cc"] = ("1",)
    add(host, f"{device}/mad_sa_cc/1", drops=0, queue_size=16)
    one = found(read_counters(host, soon), CounterSource.DRIVER, port=None)
    assert one.values == {
        "fw_pages": 1824,
        "reg_pages": 0,
        "mr_cache/2/cur": 4,
        "mr_cache/2/limit": 8,
        "mr_cache/2/miss": 1,
        "mr_cache/2/size": 4,
        "mr_cache/12/cur": 0,
        "mr_cache/12/limit": 0,
        "mr_cache/12/miss": 3,
        "mr_cache/12/size": 0,
        "mad_sa_cc/1/drops": 0,
        "mad_sa_cc/1/queue_size": 16,
    }
    groups = {
        name: meaning(CounterSource.DRIVER, name, "mlx5_core", extended=True).group
        for name in one.values
    }
    assert {name for name, group in groups.items() if group is not Group.GAUGE} == {
        *("mr_cache/2/miss", "mr_cache/12/miss", "mad_sa_cc/1/drops")
    }


def test_what_was_refused_of_several_folders_is_not_read_again(host, soon):
    add(host, f"{FOLDER}/cm_tx_msgs", req=7, rtu=5)
    refused = Missing(Why.DENIED, f"{FOLDER}/cm_tx_msgs/rtu: EACCES")
    host.recording.refuse("read", f"{FOLDER}/cm_tx_msgs/rtu", refused)
    first = read_counters(host, soon)
    one = found(first, CounterSource.CM)
    assert (one.values, one.refused) == ({"cm_tx_msgs/req": 7}, {"cm_tx_msgs/rtu": refused})
    host.asked.clear()
    again = found(read_counters(host, soon, spared=remembered(first)), CounterSource.CM)
    assert (again.values, again.refused) == (one.values, one.refused)
    assert asked(host, "read", "cm_tx_msgs/rtu") == []


# --- reading has a price -------------------------------------------------------------------


def test_what_was_refused_is_not_read_again(host, soon):
    host.recording.refuse("read", f"{FOLDER}/counters/VL15_dropped", REFUSED)
    host.recording.refuse("netlink", "nldev-stat-get-0-1", replace(REFUSED, detail="EINVAL"))
    first = read_counters(host, soon)
    host.asked.clear()
    second = read_counters(host, soon, spared=remembered(first))
    assert asked(host, "read", "VL15_dropped") == [
        "/sys/class/infiniband/mlx5_1/ports/1/counters/VL15_dropped"
    ]
    assert asked(host, "netlink", "nldev-stat-get") == ["nldev-stat-get-1-1"]
    assert found(second, PORT).refused == {"VL15_dropped": REFUSED}
    assert found(second, NLDEV).values == found(first, NLDEV).values
    assert remembered(second) == remembered(first), "and not the time after that"


def test_a_folder_that_was_refused_is_not_opened_again(host, soon):
    host.recording.refuse("list", f"{FOLDER}/counters", Missing(Why.DENIED, "EACCES"))
    first = read_counters(host, soon)
    host.asked.clear()
    read_counters(host, soon, spared=remembered(first))
    assert asked(host, "list", f"{FOLDER}/counters") == []


def test_what_was_absent_or_late_is_looked_for_again(host, soon):
    host.recording.refuse("list", f"{FOLDER}/counters", Missing(Why.ABSENT, "ENOENT"))
    host.recording.refuse("netlink", "nldev-stat-get-0-1", Missing(Why.TIMEOUT, "late"))
    assert remembered(read_counters(host, soon)) == Spared()


def test_a_device_that_was_made_anew_is_asked_anew(roce, host_in_memory, host, soon):
    host.recording.refuse("read", f"{FOLDER}/counters/VL15_dropped", REFUSED)
    spared = remembered(read_counters(host, soon))
    anew = host_in_memory(with_counters(roce).with_device(0, index=7).recording())
    facts = read_counters(anew, soon, spared=spared)
    assert facts.device("mlx5_0").index == 7
    assert found(facts, PORT).values["VL15_dropped"] == 0


def test_nothing_of_an_excluded_device_is_read(host, soon):
    wanted = Wanted(excluded=("mlx5_0",))
    facts = read_counters(host, soon, wanted)
    read_netdev_counters(host, soon, wanted)
    assert not [subject for _, subject in host.asked if "mlx5_0" in subject or "eth0" in subject]
    assert asked(host, "netlink", "stat-get") == ["nldev-stat-get-1-1"]
    assert asked(host, "netlink", "ethtool-pause") == []
    assert (facts.names, facts.excluded) == (("mlx5_0", "mlx5_1"), ("mlx5_0",))


def test_selected_ports_alone_are_read(host, soon):
    facts = read_counters(host, soon, Wanted({"mlx5_1": frozenset({1})}))
    assert {each.device for each in facts.sets} == {"mlx5_1"}
    assert read_counters(host, soon, Wanted({"mlx5_1": frozenset({2})})).sets == ()
    whole = read_counters(host, soon)
    assert narrowed(whole, Wanted({"mlx5_1": None})).sets == tuple(
        each for each in whole.sets if each.device == "mlx5_1"
    )


def test_a_device_with_a_colon_in_its_name_is_read_by_that_name() -> None:
    wanted = Wanted({"a": frozenset({1}), "b": frozenset({1, 2})}).among(("a:1", "b", "b:2"))
    assert wanted == Wanted({"a:1": None, "b": frozenset({1, 2})})


def test_without_a_device_netlink_is_not_opened(host_in_memory, roce, soon):
    host = host_in_memory(roce.change(devices=()).recording())
    facts = read_counters(host, soon)
    assert facts.names.why is Why.ABSENT
    assert read_netdev_counters(host, soon) == ()
    assert asked(host, "netlink", "") == []


# --- records -------------------------------------------------------------------------------


def test_a_record_has_the_time_of_the_recording(roce, soon):
    facts = read_counters(with_counters(roce).change(uptime=1234.5).host(), soon)
    assert facts.seconds == 1234.5
    assert {each.seconds for each in facts.sets} == {1234.5}


def test_a_record_without_counters_says_so_and_not_that_there_are_none(roce, soon):
    facts = read_counters(roce.host(), soon)
    (missing,) = facts.failed
    assert (missing.why, facts.sets) == (Why.NOT_COLLECTED, ())


# --- netdevs -------------------------------------------------------------------------------


CARRIER = {"carrier_changes": 2, "carrier_down_count": 1}


def test_a_netdevs_counters_are_those_of_rtnetlink_and_ethtool(host, soon):
    stats, pause, *_ = read_netdev_counters(host, soon)
    assert (stats.key, stats.netdev) == ((CounterSource.NETDEV, "mlx5_0", 1, None), "eth0")
    assert stats.identity == 2, "its ifindex"
    zero = dict.fromkeys(STATS64, 0)
    assert stats.values == zero | {"rx_bytes": 2**40, "rx_dropped": 3} | CARRIER
    assert pause.values == {"tx_pause_frames": 5, "rx_pause_frames": 6}


def test_counters_of_a_device_without_a_performance_agent_are_not_offered(host, soon):
    for path in host.recording.files:
        if path.startswith(f"{FOLDER}/counters/"):
            host.recording.files[path] = b"N/A (no PMA)\n"
    refused = found(read_counters(host, soon), PORT).refused
    assert {each.why for each in refused.values()} == {Why.UNSUPPORTED}


def test_a_port_whose_first_gid_names_no_netdev_has_its_counters(host, soon):
    del host.recording.files[f"{FOLDER}/gid_attrs/ndevs/0"]
    assert read_netdev_counters(host, soon)[0].netdev == "eth0", "RDMA netlink names it"
    refuse_nldev(host)
    assert read_netdev_counters(host, soon)[0].netdev == "eth0", "the next row does"


def test_the_netdev_of_another_namespace_is_not_ours(roce, host_in_memory, soon):
    """An iWARP or RoCE port whose netdev RDMA netlink does not name: none of ours is read."""
    machine = with_counters(roce).with_port(0, 0, netdev=None)
    host = host_in_memory(machine.recording())
    assert read_netdev_counters(host, soon) == ()
    older = machine.change(netns_mode=None).recording().netlink
    host.recording.netlink["nldev-sys-get"] = older["nldev-sys-get"]
    assert read_netdev_counters(host, soon)[0].netdev == "eth0", "a kernel before 4.18 names none"


def test_a_copied_tree_has_the_files(host, soon):
    refused = Missing(Why.NOT_COLLECTED, "not in the snapshot")
    host.recording.refuse("netlink", "route-getlink", refused)
    (missing,) = read_netdev_counters(host, soon)
    assert missing.values == refused
    folder = "/sys/class/net/eth0/statistics"
    host.recording.listings[folder] = ("rx_bytes", "tx_bytes")
    host.recording.files |= {f"{folder}/rx_bytes": b"77\n", f"{folder}/tx_bytes": b"?"}
    (stats,) = read_netdev_counters(host, soon)
    assert stats.values == {"rx_bytes": 77}
    assert stats.refused["tx_bytes"].why is Why.MALFORMED


def test_the_netdev_of_a_software_device_is_its_parent(roce, host_in_memory, soon):
    host = host_in_memory(with_counters(roce).with_device(0, parent="eth0").recording())
    assert {each.netdev for each in read_netdev_counters(host, soon)} == {"eth0"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda recording: recording.netlink.update({"genl-families": b""}), Why.UNSUPPORTED),
        (lambda recording: recording.netlink.update({"genl-families": b"torn"}), Why.MALFORMED),
        (lambda recording: recording.netlink.pop("genl-families"), Why.ABSENT),
        (
            lambda recording: recording.refuse(
                "netlink", "ethtool-pause-get-2", Missing(Why.UNSUPPORTED, "EOPNOTSUPP")
            ),
            Why.UNSUPPORTED,
        ),
    ],
    ids=["a kernel without ethtool netlink", "a torn list", "no list", "a driver without"],
)
def test_pause_frames_that_cannot_be_had_are_missing(change, why, host, soon):
    change(host.recording)
    stats, pause, *others = read_netdev_counters(host, soon)
    assert pause.values.why is why
    assert stats.values["rx_dropped"] == 3
    if why is Why.UNSUPPORTED:
        host.asked.clear()
        facts = replace(read_counters(host, soon), sets=(stats, pause, *others))
        read_netdev_counters(host, soon, spared=remembered(facts))
        again = asked(host, "netlink", "ethtool-pause")
        assert again + asked(host, "netlink", "genl") * (others[0].values == pause.values) == []


def test_a_kernel_that_cannot_tell_pause_frames_is_not_asked(host, soon):
    host.identity = replace(host.identity, kernel="5.4.0-42-generic")
    _, *of_ethtool = read_netdev_counters(host, soon)
    assert {each.values.why for each in of_ethtool} == {Why.UNSUPPORTED}
    assert asked(host, "netlink", "genl") == []


def test_the_netdevs_of_this_machine_are_read_by_hand_as_its_files_say(soon):
    reader = netdev_counters._Reader(LiveHost(), soon, Wanted(), Spared())
    if isinstance(reader._links, Missing):
        pytest.skip(f"no rtnetlink here: {reader._links}")
    folder = "/sys/class/net/lo/statistics"
    files = LiveHost().list(folder)
    if isinstance(files, Missing):
        pytest.skip(f"no {folder}: {files}")
    assert set(files) - set(STATS64) == set()
    assert "rx_packets" in reader._links["lo"].counters


# --- legs of a bond ------------------------------------------------------------------------


FEC = CounterSource.FEC


def on_a_bond(roce, *devices):
    """bond0 of eth0 and eth1, which count 7 and 9 bits; `devices` are names and their netdevs."""
    leg, own = LegData(), roce.devices[0]
    netdevs = (
        NetDev("bond0", kind="bond", bond=BondData()),
        *(
            NetDev(
                f"eth{at}", master="bond0", leg=leg, pause=(at, at), fec={"corrected_bits": (n,)}
            )
            for at, n in enumerate((7, 9))
        ),
    )
    made = (
        replace(own, name=name, ports=(replace(own.ports[0], netdev=netdev),), pci_address=address)
        for (name, netdev), address in zip(devices, ("0000:08:00.0", "0000:09:00.0"), strict=False)
    )
    return replace(with_counters(roce), netdevs=netdevs, devices=tuple(made))


def corrected(host, soon, **wanted):
    """Device, netdev and corrected bits of each set of FEC, and whether it is of a leg."""
    return [
        (each.device, each.netdev, each.values["corrected_bits"], each.leg)
        for each in read_netdev_counters(host, soon, Wanted(**wanted))
        if each.source is FEC and not isinstance(each.values, Missing)
    ]


@pytest.mark.parametrize(
    ("device", "netdev"),
    [("mlx5_bond_0", "eth0"), ("mlx5_bond_0", "bond0"), ("roceo1", "eth1"), ("rxe0", "bond0")],
    ids=["the active leg", "the bond", "by a name of the distribution's", "soft RoCE on the bond"],
)
def test_a_device_on_a_bond_has_the_counters_of_each_leg(device, netdev, roce, soon):
    host = on_a_bond(roce, (device, netdev)).host()
    both = [(device, "eth0", 7, True), (device, "eth1", 9, True)]
    assert corrected(host, soon) == both
    facts = read_netdev_counters(host, soon)
    assert len({each.key for each in facts}) == len(facts) == 1 + 2 * 3


def test_two_devices_on_a_leg_each_have_their_own(roce, soon):
    host = on_a_bond(roce, ("mlx5_0", "eth0"), ("mlx5_1", "eth1")).host()
    own = [("mlx5_0", "eth0", 7, False), ("mlx5_1", "eth1", 9, False)]
    assert corrected(host, soon) == own
    assert corrected(host, soon, devices={"mlx5_0": None}) == own[:1]
    assert corrected(host, soon, excluded=("mlx5_1",)) == own[:1], "it may not be looked at"


def test_soft_roce_on_a_leg_has_that_legs(roce, host_in_memory, soon):
    host = host_in_memory(on_a_bond(roce, ("rxe0", "eth0")).recording())
    del host.recording.links["/sys/class/infiniband/rxe0/device"]
    assert corrected(host, soon) == [("rxe0", "eth0", 7, False)]


# --- macOS ---------------------------------------------------------------------------------


def test_a_mac_counts_how_often_a_link_came_up(soon):
    host = macs()["mac-ready"][0].host()
    facts = mac_counters.read_mac_counters(host, soon)
    assert {each.device: each.values for each in facts.sets}["rdma_en1"] == {"IOLinkActiveCount": 1}
    assert facts.names == tuple(sorted(facts.names))
    narrow = mac_counters.read_mac_counters(host, soon, Wanted(excluded=("rdma_en1",)))
    assert "rdma_en1" not in {each.device for each in narrow.sets}


def test_the_boot_of_a_mac_is_a_uuid():
    parse = mac_counters.parse_boot_session
    text = "1D2C3B4A-0000-4111-8222-9A8B7C6D5E4F"
    assert parse(f"{text}\n".encode()) == text
    assert parse(b"soon").why is Why.MALFORMED


# --- every parser, on damaged bytes ----------------------------------------------------------

STATISTICS = counted.statistics(3, 1, {"out_of_sequence": 2**63, "np_cnp_sent": 7})
REPLIES = {
    nldev_counters.parse_statistics: STATISTICS,
    nldev_counters.parse_device_indexes: STATISTICS,
    netdev_counters.parse_pause: counted.pause(2, 5, 6),
    netdev_counters.parse_links: counted.with_stats64(
        netlink.request(16, 0, bytes(16) + netlink.attribute(3, b"eth0\0")), {"rx_bytes": 9}
    ),
}


def test_an_index_of_more_than_32_bits_is_no_dev_index():
    name = netlink.attribute(2, b"mlx5_0\0")
    for index, expected in ((2**32 - 1, {"mlx5_0": 2**32 - 1}), (2**32, {})):
        reply = netlink.request(0, 0, netlink.attribute(1, struct.pack("=Q", index)) + name)
        assert nldev_counters.parse_device_indexes(reply) == expected


@st.composite
def damaged(draw, raw):
    changed = bytearray(raw)
    for _ in range(draw(st.integers(1, 6))):
        changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
    return bytes(changed[: draw(st.integers(0, len(changed)) | st.just(len(changed)))])


@pytest.mark.parametrize("parse", REPLIES, ids=lambda parse: parse.__name__)
@given(data=st.data())
def test_any_bytes_are_values_or_missing(parse, data):
    value = parse(data.draw(damaged(REPLIES[parse]) | st.binary(max_size=120)))
    assert isinstance(value, dict | Missing)
    if isinstance(value, dict):
        for name, number in value.items():
            assert name
            assert name.isprintable()
            numbers = number.counters.values() if hasattr(number, "counters") else (number,)
            assert all(0 <= each < 2**64 for each in numbers)


@given(st.binary(max_size=40))
def test_any_content_is_a_count_or_missing(raw):
    value = counters.parse_count(raw)
    assert isinstance(value, int | Missing)
    if isinstance(value, int):
        assert value == int(raw)
        assert value < 2**64


@given(st.integers(0, 2**64 - 1))
def test_every_64_bit_value_is_a_count(value):
    assert counters.parse_count(f"{value}\n".encode()) == value
    assert counters.parse_count(f"      {value}\n".encode()) == value


@given(st.binary(max_size=40))
def test_any_content_is_an_uptime_or_missing(raw):
    assert isinstance(counters.parse_uptime(raw), float | Missing)
    assert counters.parse_uptime(b"12345.67 45678.90\n") == 12345.67


def test_what_is_read_by_hand_is_what_pyroute2_reads():
    table = decoded(STATISTICS).get_attr("RDMA_NLDEV_ATTR_STAT_HWCOUNTERS")
    theirs = {}
    for _, entry in table["attrs"]:
        name = entry.get_attr("RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME")
        theirs[name] = entry.get_attr("RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE")
    assert nldev_counters.parse_statistics(STATISTICS) == theirs


def test_a_value_of_another_length_is_left_out():
    entry = netlink.attribute(82, b"odd\0") + netlink.attribute(83, struct.pack("=IB", 1, 2))
    table = netlink.attribute(80, netlink.attribute(81, entry))
    assert nldev_counters.parse_statistics(netlink.request(5137, 0, table)) == {}
