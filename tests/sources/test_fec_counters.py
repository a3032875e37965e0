"""Counters of bit errors: replies by the kernel's own names, of described drivers, and torn."""

import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import counted
from lab.linked import Ethtool
from lab.machine import with_counters
from lab.samples import roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.counter_catalogue import Group, Unit, meaning
from rdmadiag.facts.counters import CounterSet, CounterSource
from rdmadiag.host import netlink
from rdmadiag.sources.fec_counters import parse_fec_counters, parse_phy_counters, phy_request
from rdmadiag.sources.netdev_counters import read_netdev_counters
from tests.conftest import MemoryHost
from tests.verbs.conftest import compile_c  # noqa: F401  # a fixture

FEC = {"corrected_blocks": (100, 60, 40), "uncorrectable_blocks": (2,)}


def machine(**netdev: Any) -> Any:
    plain = with_counters(roce_host())
    return plain.change(netdevs=(replace(plain.netdevs[0], **netdev),))


def read(host: Any) -> dict[CounterSource, CounterSet]:
    sets = read_netdev_counters(host, time.monotonic() + 5)
    return {each.source: each for each in sets}


def test_replies_by_the_kernels_names_are_read_field_by_field(
    compile_c: Callable[..., Path],  # noqa: F811  # the fixture
) -> None:
    oracle = compile_c(Path(__file__).with_name("ethtool_oracle.c"))
    raw = subprocess.run([oracle], capture_output=True, check=True).stdout
    replies = [raw[each.offset : each.offset + each.length] for each in netlink.messages(raw)]
    fec, phy, request = replies[5:]
    assert parse_fec_counters(fec) == {
        "corrected_blocks": 100,
        "corrected_bits": 2**40,
        "corrected_bits/lane0": 2**40,
        "corrected_bits/lane1": 0,
    }, "what is of no length is not counted, and is no 0"
    assert parse_phy_counters(phy) == {"SymbolErrorDuringCarrier": 7}
    named = netlink.attribute(1, b"\7\0\0\0") + netlink.attribute(2, b"eth0\0")
    ours = phy_request(21, 7)
    head = netlink.attribute(0x8000 | 2, named)
    assert request[20 : 20 + len(head)] == head
    assert request[20 + len(head) :] == ours[20 + len(netlink.attribute(0x8000 | 2, named[:8])) :]
    assert ours[16] == request[16] == netlink.ETHTOOL_MSG_STATS_GET


def test_the_counters_of_a_driver_are_in_the_sample_with_its_speed() -> None:
    host = machine(fec=FEC, symbol_errors=5).change(ethtool={"ens1f0np0": Ethtool()}).host()
    found = read(host)
    assert found[CounterSource.FEC].values == {
        "corrected_blocks": 100,
        "corrected_blocks/lane0": 60,
        "corrected_blocks/lane1": 40,
        "uncorrectable_blocks": 2,
    }
    assert found[CounterSource.FEC].speed_mbps == 100_000
    assert found[CounterSource.PHY].values == {"SymbolErrorDuringCarrier": 5}
    assert found[CounterSource.PHY].speed_mbps is None


def test_a_driver_that_counts_neither_has_neither_and_no_zero() -> None:
    recording = machine().recording()
    recording.netlink |= {
        "ethtool-fec-stats-2": counted.fec(2),
        "ethtool-phy-2": counted.phy(2, None),
    }
    found = read(MemoryHost(recording))
    for source in (CounterSource.FEC, CounterSource.PHY):
        values = found[source].values
        assert isinstance(values, Missing)
        assert values.why is Why.UNSUPPORTED


def test_a_function_that_is_suspended_is_not_woken() -> None:
    recording = machine(fec=FEC, symbol_errors=5).recording()
    path = "/sys/class/net/ens1f0np0/device/power/runtime_status"
    recording.files[path] = b"suspended\n"
    host = MemoryHost(recording)
    for source, found in read(host).items():
        asleep = isinstance(found.values, Missing) and found.values.why is Why.NOT_COLLECTED
        assert asleep is (source is not CounterSource.NETDEV)
    asked = {subject for question, subject in host.asked if question == "netlink"}
    assert not any(each.startswith("ethtool-") for each in asked)
    recording.files[path] = b"active\n"
    assert not isinstance(read(MemoryHost(recording))[CounterSource.FEC].values, Missing)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("corrected_bits", (Group.CORRECTED, Unit.BITS)),
        ("corrected_blocks", (Group.CORRECTED, Unit.BLOCKS)),
        ("uncorrectable_blocks", (Group.UNCORRECTABLE, Unit.BLOCKS)),
        ("uncorrectable_blocks/lane3", (Group.OTHER, Unit.BLOCKS)),
        ("of_a_later_kernel", (Group.OTHER, Unit.EVENTS)),
    ],
)
def test_a_lane_is_not_counted_beside_the_total(name: str, expected: tuple[Group, Unit]) -> None:
    found = meaning(CounterSource.FEC, name, "mlx5_core", extended=False)
    assert (found.group, found.unit) == expected


@given(
    st.binary(max_size=200)
    | st.binary(max_size=40).map(lambda raw: counted.fec(2, corrected_bits=(7, 7))[:-16] + raw)
    | st.binary(max_size=40).map(lambda raw: counted.phy(2, 3)[:-12] + raw)
)
def test_any_bytes_give_numbers_or_a_reason(raw: bytes) -> None:
    for parse in (parse_fec_counters, parse_phy_counters):
        found = parse(raw)
        if not isinstance(found, Missing):
            assert all(0 <= value < 2**64 for value in found.values())


def test_a_counter_of_an_odd_length_is_malformed() -> None:
    stats = netlink.attribute(0x8000 | 5, netlink.attribute(2, bytes(12)))
    reply = netlink.request(21, 0, netlink.GENERIC_HEADER.pack(30, 1, 0) + stats)
    found = parse_fec_counters(reply)
    assert isinstance(found, Missing)
    assert found.why is Why.MALFORMED
