"""ethtool netlink: replies by the kernel's own names, of described drivers, and damaged ones."""

import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lab.linked import MODES, Ethtool
from lab.machine import Machine
from lab.netdevs import NetDev
from lab.samples import roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.ethtool import (
    SUBSTATES,
    Duplex,
    EthtoolFacts,
    ExtendedState,
    Fec,
    FecState,
    LinkModes,
    LinkState,
    NetdevEthtool,
    Pause,
    Rings,
)
from rdmadiag.host import netlink
from rdmadiag.sources.ethtool import (
    parse_fec,
    parse_link_modes,
    parse_link_state,
    parse_pause_settings,
    parse_rings,
    read_ethtool,
)
from rdmadiag.sources.generic import ethtool_request
from tests.verbs.conftest import compile_c  # noqa: F401  # a fixture

NETDEV = "ens1f0np0"
PARSERS = (parse_link_state, parse_link_modes, parse_pause_settings, parse_fec, parse_rings)


def read(machine: Machine) -> EthtoolFacts:
    found = read_ethtool(machine.host(), time.monotonic() + 5)
    assert isinstance(found, EthtoolFacts)
    return found


def only(ethtool: Ethtool) -> NetdevEthtool:
    (netdev,) = read(roce_host().change(ethtool={NETDEV: ethtool})).netdevs
    return netdev


# --- messages ----------------------------------------------------------------------------


def test_replies_by_the_kernels_names_are_read_field_by_field(
    compile_c: Callable[..., Path],  # noqa: F811  # the fixture
) -> None:
    oracle = compile_c(Path(__file__).with_name("ethtool_oracle.c"))
    raw = subprocess.run([oracle], capture_output=True, check=True).stdout
    replies = [raw[each.offset : each.offset + each.length] for each in netlink.messages(raw)]
    link, modes, pause, fec, rings = (
        parse(reply) for parse, reply in zip(PARSERS, replies, strict=False)
    )
    assert isinstance(link, LinkState)
    assert (link.up, link.extended) == (False, ExtendedState.BAD_SIGNAL_INTEGRITY)
    assert (link.substate, link.substate_number) == ("serdes_alos", 4)
    assert isinstance(link.down_count, Missing), "the header of Debian 12 has none"
    assert modes == LinkModes(
        autoneg=True,
        supported=("Autoneg", "25000baseCR/Full", "100000baseCR4/Full"),
        advertised=("Autoneg", "25000baseCR/Full"),
        peer=("100000baseCR4/Full",),
        speed_mbps=25000,
        duplex=Duplex.FULL,
        lanes=1,
    )
    assert pause == Pause(autoneg=False, rx=True, tx=False)
    assert fec == FecState(auto=True, modes=(Fec.BASER, Fec.LLRS), active=Fec.RS)
    assert rings == Rings(rx=1024, tx=512, rx_max=8192, tx_max=4096)


def test_substates_are_numbered_from_one_in_each_state() -> None:
    for state in ExtendedState:
        words = SUBSTATES.get(state, ())
        for number in range(len(words) + 2):
            link = only(Ethtool(up=False, because=(state.number, number))).link
            assert isinstance(link, LinkState)
            assert (link.extended, link.substate_number) == (state, number)
            expected = words[number - 1] if 0 < number <= len(words) else Why.UNSUPPORTED
            assert getattr(link.substate, "why", link.substate) == expected


def test_a_state_of_a_newer_kernel_is_not_known_and_keeps_its_reason() -> None:
    link = only(Ethtool(up=False, because=(200, 1), down_count=9)).link
    assert isinstance(link, LinkState)
    assert link.extended == Missing(Why.UNSUPPORTED, "extended link state 200 is not known here")
    assert link.down_count == 9


def test_of_a_link_that_is_down_speed_duplex_and_lanes_are_not_known() -> None:
    modes = only(Ethtool(up=False, lanes=0)).modes
    assert isinstance(modes, LinkModes)
    for value in (modes.speed_mbps, modes.duplex, modes.lanes):
        assert isinstance(value, Missing)
        assert value.why is Why.ABSENT
    assert modes.supported == ("Autoneg", "25000baseCR/Full", "100000baseCR4/Full")


def test_what_a_driver_leaves_out_is_unsupported_and_not_off() -> None:
    found = only(Ethtool(peer=None, lanes=None, fec_active=None))
    assert isinstance(found.modes, LinkModes)
    assert isinstance(found.fec, FecState)
    assert isinstance(found.link, LinkState)
    left_out = (
        *(found.modes.peer, found.modes.lanes, found.fec.active),
        *(found.link.extended, found.link.substate, found.link.down_count),
    )
    for value in left_out:
        assert isinstance(value, Missing)
        assert value.why in (Why.UNSUPPORTED, Why.ABSENT)


def test_a_bitset_without_names_is_malformed() -> None:
    body = netlink.GENERIC_HEADER.pack(4, 1, 0) + netlink.attribute(3, netlink.attribute(4, b"\1"))
    modes = parse_link_modes(netlink.request(21, 0, body))
    assert isinstance(modes, LinkModes)
    assert modes.supported == Missing(Why.MALFORMED, "a bitset without names")


@given(st.binary(max_size=400), st.integers(2, 10))
def test_no_bytes_raise(raw: bytes, kind: int) -> None:
    nested = netlink.GENERIC_HEADER.pack(0, 1, 0) + netlink.attribute(kind, raw)
    for parse in PARSERS:
        parse(raw)
        parse(netlink.request(21, 0, netlink.GENERIC_HEADER.pack(0, 1, 0) + raw))
        parse(netlink.request(21, 0, nested))


@given(
    st.lists(st.sampled_from(sorted(MODES)), unique=True),
    st.sets(st.sampled_from(sorted(MODES))),
    st.integers(1, 800_000),
)
def test_what_is_written_is_read_back(names: list[str], on: set[str], speed: int) -> None:
    advertised = tuple(each for each in names if each in on)
    described = Ethtool(supported=tuple(names), advertised=advertised, peer=tuple(on), speed=speed)
    replies = dict(described.replies(3))
    modes = parse_link_modes(replies["ethtool-linkmodes-3"] or b"")
    assert isinstance(modes, LinkModes)
    assert (modes.supported, modes.advertised) == (tuple(names), advertised)
    assert modes.peer == tuple(on)
    assert modes.speed_mbps == speed


def test_the_request_names_one_netdev_and_asks_for_no_statistics() -> None:
    request = ethtool_request(21, netlink.ETHTOOL_MSG_FEC_GET, 7)
    (message,) = netlink.messages(request)
    assert (message.type, message.flags) == (21, netlink.NLM_F_REQUEST)
    assert request[16:20] == bytes([29, 1, 0, 0])
    assert request[20:] == b"\x0c\0\x01\x80\x08\0\x01\0\x07\0\0\0"


# --- reading -----------------------------------------------------------------------------


def test_a_refused_message_leaves_the_others() -> None:
    found = only(Ethtool(supported=None, fec=None))
    for value in (found.modes, found.fec):
        assert isinstance(value, Missing)
        assert value.why is Why.UNSUPPORTED
        assert NETDEV in value.detail
    assert isinstance(found.link, LinkState)
    assert found.link.up is True
    assert found.pause == Pause(autoneg=False, rx=False, tx=False)


def test_a_kernel_without_ethtool_netlink_is_unsupported_for_each_netdev() -> None:
    recording = roce_host().change(ethtool={NETDEV: Ethtool()}).recording()
    recording.netlink["genl-families"] = b""
    from tests.conftest import MemoryHost

    found = read_ethtool(MemoryHost(recording), time.monotonic() + 5)
    assert isinstance(found, EthtoolFacts)
    (netdev,) = found.netdevs
    assert netdev.link == netdev.rings == Missing(Why.UNSUPPORTED, "no ethtool netlink")


def test_a_netdev_whose_function_sleeps_is_not_woken() -> None:
    from tests.conftest import MemoryHost

    recording = roce_host().change(ethtool={NETDEV: Ethtool()}).recording()
    path = f"/sys/class/net/{NETDEV}/device/power/runtime_status"
    recording.files[path] = b"suspended\n"
    host = MemoryHost(recording)
    found = read_ethtool(host, time.monotonic() + 5)
    assert isinstance(found, EthtoolFacts)
    assert isinstance(found.netdevs[0].link, Missing)
    assert found.netdevs[0].link.why is Why.NOT_COLLECTED
    asked = {subject for question, subject in host.asked if question == "netlink"}
    assert not any(each.startswith("ethtool-") for each in asked)
    recording.files[path] = b"active\n"
    found = read_ethtool(host, time.monotonic() + 5)
    assert isinstance(found, EthtoolFacts)
    assert isinstance(found.netdevs[0].link, LinkState)


def test_every_leg_of_a_bond_is_looked_at_and_no_netdev_beside_rdma() -> None:
    host = roce_host()
    (own,) = host.netdevs
    bond = NetDev("bond0", kind="bond", addresses=own.addresses)
    legs = [NetDev(name, master="bond0", addresses=()) for name in (NETDEV, "ens1f1np1")]
    machine = host.with_port(netdev="bond0").change(
        netdevs=(bond, *legs, NetDev("eth9")), ethtool={}
    )
    assert [each.netdev for each in read(machine).netdevs] == ["bond0", NETDEV, "ens1f1np1"]


def test_a_record_holds_it() -> None:
    machine = roce_host().change(ethtool={NETDEV: replace(Ethtool(), speed=25_000)})
    modes = read(machine).netdevs[0].modes
    assert isinstance(modes, LinkModes)
    assert modes.speed_mbps == 25_000


def test_a_host_without_a_device_has_nothing_to_read() -> None:
    assert read_ethtool(Machine("host").host(), time.monotonic() + 5) == EthtoolFacts(())
