"""DCB: replies by the kernel's own structures, by live kernels, and damaged ones."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.machine import Machine
from lab.netdevs import Dcb, NetDev
from lab.rdma_devices import Port
from lab.samples import roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.dcb import (
    App,
    AppSelector,
    Buffers,
    DcbFacts,
    Dcbx,
    Ets,
    Ieee,
    Pfc,
    Transmission,
    Trust,
)
from rdmadiag.host import netlink
from rdmadiag.sources.dcb import (
    ieee_request,
    parse_app_trust,
    parse_apps,
    parse_buffers,
    parse_dcbx,
    parse_ets,
    parse_ieee,
    parse_pfc,
    parse_trust,
    read_dcb,
)
from tests.verbs.conftest import compile_c  # noqa: F401  # a fixture

NETDEV = "ens1f0np0"


def ieee(dcb: Dcb) -> Ieee:
    found = parse_ieee(dcb.reply("eth0"))
    assert isinstance(found, Ieee)
    return found


def read(machine: Machine) -> DcbFacts:
    found = read_dcb(machine.host(), time.monotonic() + 5)
    assert isinstance(found, DcbFacts)
    return found


# --- messages ----------------------------------------------------------------------------


def test_a_reply_by_the_kernels_structures_is_read_field_by_field(
    compile_c: Callable[..., Path],  # noqa: F811  # the fixture
) -> None:
    oracle = compile_c(Path(__file__).with_name("dcb_oracle.c"))
    reply = subprocess.run([oracle], capture_output=True, check=True).stdout
    found = parse_ieee(reply)
    assert isinstance(found, Ieee)
    assert found.pfc == Pfc(4, (3, 5), 32768, macsec_bypass=True)
    assert found.ets == Ets(
        willing=True,
        capability=8,
        credit_shaper=True,
        class_of=(0, 1, 2, 3, 4, 5, 6, 7),
        bandwidth_percent=(10, 20, 30, 40, 0, 0, 0, 0),
        transmission=(
            Transmission.ETS,
            Transmission.CREDIT_SHAPER,
            Transmission.STRICT,
            Transmission.VENDOR,
            *(Transmission.STRICT,) * 4,
        ),
    )
    assert found.apps == (
        App(AppSelector.DSCP, 26, 3),
        App(AppSelector.ETHERTYPE, 0x8915, 3),
        App(AppSelector.DATAGRAM, 4791, 5),
    )
    assert found.buffers == Buffers(
        (0, 0, 0, 1, 0, 2, 0, 0), (10000, 200000, 300000, 0, 0, 0, 0, 0), 510000
    )
    assert found.dcbx == (Dcbx.FIRMWARE, Dcbx.IEEE, Dcbx.STATIC)
    assert found.peer_pfc == Pfc(8, (3,), 0, macsec_bypass=False)
    assert found.peer_apps == (App(AppSelector.ANY, 80, 1),)
    assert isinstance(found.trust, Missing), "linux/dcbnl.h of Debian 12 has no trust table"


def test_what_the_driver_leaves_out_is_unsupported_and_not_off() -> None:
    found = ieee(Dcb(pfc=None, class_of=None, dcbx=None))
    for value in (found.pfc, found.ets, found.buffers, found.dcbx, found.peer_pfc, found.trust):
        assert isinstance(value, Missing)
        assert value.why is Why.UNSUPPORTED
    assert found.apps == ()


def test_pfc_that_is_off_is_an_answer() -> None:
    assert ieee(Dcb(pfc=())).pfc == Pfc(8, (), 0, macsec_bypass=False)


def test_the_order_of_a_trust_table_is_kept() -> None:
    assert ieee(Dcb(trust=(255, 5))).trust == (AppSelector.PCP, AppSelector.DSCP)


def test_a_selector_that_is_not_known_is_malformed_alone() -> None:
    apps = ieee(Dcb(apps=((7, 1, 2), (5, 26, 3)))).apps
    assert apps == (
        App(Missing(Why.MALFORMED, "APP selector 7"), 1, 2),
        App(AppSelector.DSCP, 26, 3),
    )


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", Why.ABSENT),
        (b"\x10", Why.MALFORMED),
        (netlink.request(netlink.RTM_GETLINK, 0, bytes(8)), Why.MALFORMED),
        (netlink.request(netlink.RTM_GETDCB, 0, bytes(4)), Why.MALFORMED),
    ],
    ids=["nothing", "torn", "another message", "without DCB_ATTR_IEEE"],
)
def test_what_is_no_reply_is_a_missing(raw: bytes, why: Why) -> None:
    found = parse_ieee(raw)
    assert isinstance(found, Missing)
    assert found.why is why


@pytest.mark.parametrize("parse", [parse_pfc, parse_ets, parse_buffers])
def test_a_structure_that_is_cut_short_is_malformed(
    parse: Callable[[bytes], object],
) -> None:
    found = parse(bytes(3))
    assert isinstance(found, Missing)
    assert found.why is Why.MALFORMED


@given(st.binary(max_size=400))
def test_no_bytes_raise(raw: bytes) -> None:
    reply = netlink.request(netlink.RTM_GETDCB, 0, bytes(4) + netlink.attribute(13, raw))
    parsers = (parse_pfc, parse_ets, parse_apps, parse_app_trust, parse_buffers, parse_dcbx)
    for parse in (*parsers, parse_trust, parse_ieee):
        parse(raw)
    parse_ieee(reply)


@given(
    st.sets(st.integers(0, 7)),
    st.lists(st.tuples(st.just(5), st.integers(0, 63), st.integers(0, 7))),
)
def test_what_is_written_is_read_back(
    enabled: set[int], entries: list[tuple[int, int, int]]
) -> None:
    found = ieee(Dcb(pfc=tuple(enabled), apps=tuple(entries)))
    assert isinstance(found.pfc, Pfc)
    assert set(found.pfc.enabled) == enabled
    assert found.apps == tuple(App(AppSelector.DSCP, dscp, prio) for _, dscp, prio in entries)


def test_the_request_names_the_netdev_and_only_gets() -> None:
    request = ieee_request("eth0")
    (message,) = netlink.messages(request)
    assert message.type == 78
    assert request[16:20] == bytes([0, 21, 0, 0])
    assert request[20:] == b"\x09\0\x01\0eth0\0\0\0\0"
    netlink.require_read_only(netlink.NETLINK_ROUTE, request)


@pytest.mark.parametrize("command", [c for c in range(28) if c != 21])
def test_every_other_command_is_refused_though_its_type_is_get(command: int) -> None:
    """dcb_doit looks at the command, and executes a set in a message of RTM_GETDCB."""
    request = bytearray(ieee_request("eth0"))
    request[17] = command
    with pytest.raises(netlink.NotARead):
        netlink.require_read_only(netlink.NETLINK_ROUTE, bytes(request))


@pytest.mark.parametrize(
    ("raw", "expected"), [(b"dscp\n", Trust.DSCP), (b"pcp\n", Trust.PCP), (b"DSCP", Trust.DSCP)]
)
def test_the_trust_file_of_nvidias_mlx5(raw: bytes, expected: Trust) -> None:
    assert parse_trust(raw) is expected


def test_another_word_in_it_is_malformed() -> None:
    found = parse_trust(b"both")
    assert isinstance(found, Missing)
    assert found.why is Why.MALFORMED


# --- reading -----------------------------------------------------------------------------


def test_the_netdev_of_the_port_is_read() -> None:
    found = read(roce_host().change(dcb={NETDEV: Dcb(pfc=(3,))}))
    (netdev,) = found.netdevs
    assert netdev.netdev == NETDEV
    assert isinstance(netdev.ieee, Ieee)
    assert netdev.ieee.pfc == Pfc(8, (3,), 0, macsec_bypass=False)


def test_a_driver_without_dcb_is_unsupported_with_its_name() -> None:
    (netdev,) = read(roce_host().change(dcb={})).netdevs
    assert isinstance(netdev.ieee, Missing)
    assert netdev.ieee.why is Why.UNSUPPORTED
    assert NETDEV in netdev.ieee.detail


def test_a_netdev_beside_rdma_is_not_looked_at() -> None:
    host = roce_host()
    beside = host.change(netdevs=(*host.netdevs, NetDev("eth9")), dcb={"eth9": Dcb()})
    assert [each.netdev for each in read(beside).netdevs] == [NETDEV]


def test_every_leg_of_a_bond_is_looked_at() -> None:
    host = roce_host()
    (own,) = host.netdevs
    bond = NetDev("bond0", kind="bond", addresses=own.addresses)
    legs = [NetDev(name, master="bond0", addresses=()) for name in (NETDEV, "ens1f1np1")]
    machine = host.with_port(netdev="bond0").change(netdevs=(bond, *legs), dcb={})
    assert [each.netdev for each in read(machine).netdevs] == ["bond0", NETDEV, "ens1f1np1"]


def test_a_host_without_a_device_has_nothing_to_read() -> None:
    found = read_dcb(Machine("host").host(), time.monotonic() + 5)
    assert found == DcbFacts(()) or isinstance(found, Missing)


def test_a_port_whose_netdev_is_elsewhere_names_none() -> None:
    host = roce_host().with_port(netdev=None, gids={})
    assert isinstance(host.devices[0].ports[0], Port)
    assert read(host.change(dcb={})).netdevs == ()
