"""A GID names a netdev without its namespace: which one it is follows from what else is known."""

from dataclasses import replace
from typing import Any

import pytest

from lab.machine import Machine
from lab.netdevs import NetDev
from lab.rdma_devices import V2, GidRow
from lab.samples import roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.gid.netdev import NetDevState
from rdmadiag.view.reconcile import devices

NAME = "ens1f0np0"
MAC = "02:00:00:00:00:01"
DEFAULT = "fe80::ff:fe00:1"  # made of that MAC
UNREAD = Missing(Why.TIMEOUT)
ABSENT, DOWN, UP = NetDevState.ABSENT, NetDevState.DOWN, NetDevState.UP
ELSEWHERE, UNKNOWN = NetDevState.ELSEWHERE, NetDevState.UNKNOWN


def machine(gid: str, *netdevs: NetDev, named: str | None = None, **changes: Any) -> Machine:
    """A port with one GID of NAME; nldev names its netdev `named`."""
    rows = {0: GidRow(gid, V2, NAME)}
    return roce_host().with_port(gids=rows, netdev=named).change(netdevs=netdevs, **changes)


def netdev(name: str = NAME, address: str = "203.0.113.9/24", **changes: Any) -> NetDev:
    return NetDev(name, addresses=(address,), **({"mac": MAC} | changes))


OTHER = "::ffff:192.0.2.1"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        pytest.param(machine(OTHER, netdev(), named=NAME), UP, id="RDMA netlink names it"),
        pytest.param(
            machine(OTHER, netdev(up=False), named=NAME), DOWN, id="RDMA netlink names it, down"
        ),
        pytest.param(machine(OTHER, netdev()), ELSEWHERE, id="the name alone is the same"),
        pytest.param(machine(OTHER, netdev(up=False)), ELSEWHERE, id="and is down here"),
        pytest.param(machine(OTHER), ELSEWHERE, id="there is none of that name"),
        pytest.param(machine(OTHER, netns_mode=None), ABSENT, id="on a kernel without netns mode"),
        pytest.param(
            machine(OTHER, netdev(address="192.0.2.1/24")), UP, id="it has the IPv4 address"
        ),
        pytest.param(
            machine("2001:db8::7", netdev(address="2001:db8::7/64")), UP, id="or the IPv6 address"
        ),
        pytest.param(machine(DEFAULT, netdev()), UP, id="or the MAC of the default GID"),
        pytest.param(
            machine(
                OTHER,
                netdev(kind="vlan", lower="eth9"),
                netdev("eth9", "203.0.113.10/24"),
                named="eth9",
            ),
            UP,
            id="a VLAN of the port's netdev",
        ),
        pytest.param(
            machine(
                OTHER,
                netdev(kind="bond"),
                netdev("eth9", "203.0.113.10/24", master=NAME),
                named="eth9",
            ),
            UP,
            id="the bond of the port's netdev",
        ),
        pytest.param(
            machine(OTHER, netdev(), netdev("eth9", "203.0.113.10/24"), named="eth9"),
            ELSEWHERE,
            id="beside the port's netdev, and unrelated",
        ),
    ],
)
def test_a_netdev_is_matched_by_more_than_its_name(host: Machine, expected: NetDevState) -> None:
    (view,) = devices(host.evidence())
    assert view.ports[0].netdevs == {NAME: expected}


@pytest.mark.parametrize(
    ("lacking", "expected"),
    [
        pytest.param(("nldev",), UNKNOWN, id="without RDMA netlink"),
        pytest.param(("netdev",), UNKNOWN, id="without rtnetlink"),
        pytest.param(("nldev", "netdev"), UNKNOWN, id="without either"),
    ],
)
def test_a_name_without_a_second_witness_is_unknown(
    lacking: tuple[str, ...], expected: NetDevState
) -> None:
    evidence = machine(OTHER, netdev(up=False)).evidence()
    (view,) = devices(replace(evidence, **dict.fromkeys(lacking, UNREAD)))
    assert view.ports[0].netdevs == {NAME: expected}


def test_a_default_gid_of_another_namespaces_netdev_is_not_unassigned() -> None:
    (view,) = devices(machine("fe80::1:2ff:fe03:4", netdev()).evidence())
    assert view.ports[0].unassigned == frozenset()


def test_an_address_that_our_netdev_lacks_is_unassigned_whatever_its_operstate() -> None:
    evidence = machine(DEFAULT, netdev(), named=NAME).evidence()
    (view,) = devices(evidence)
    assert view.ports[0].unassigned == {0}
    netdevs = tuple(replace(each, operstate=UNREAD) for each in evidence.netdev.netdevs)
    (view,) = devices(replace(evidence, netdev=replace(evidence.netdev, netdevs=netdevs)))
    assert view.ports[0].netdevs == {NAME: UNKNOWN}
    assert view.ports[0].unassigned == {0}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        pytest.param(machine(OTHER, netdev(), named=NAME), NAME, id="it is ours"),
        pytest.param(machine(OTHER), NAME, id="nobody here has that name"),
        pytest.param(machine(OTHER, netdev()), None, id="another netdev here has it"),
    ],
)
def test_a_port_has_no_netdev_of_the_same_name(host: Machine, expected: str | None) -> None:
    (device,) = devices(host.evidence())
    found = device.ports[0].netdev
    assert (None if isinstance(found, Missing) else found) == expected


def test_nor_one_of_which_it_is_not_known_whose_it_is() -> None:
    evidence = replace(machine(OTHER, netdev()).evidence(), nldev=UNREAD)
    (device,) = devices(evidence)
    found = device.ports[0].netdev
    assert isinstance(found, Missing)
    assert found.why is Why.NOT_COLLECTED


@pytest.mark.parametrize(
    ("operstate", "expected"),
    [
        ("up", UP),
        ("unknown", UP),
        ("dormant", UNKNOWN),
        ("down", DOWN),
        ("lowerlayerdown", DOWN),
    ],
)
def test_a_netdev_that_waits_for_a_supplicant_may_carry_ipv4(
    operstate: str, expected: NetDevState
) -> None:
    evidence = machine(OTHER, netdev(), named=NAME).evidence()
    netdevs = tuple(replace(each, operstate=operstate) for each in evidence.netdev.netdevs)
    (view,) = devices(replace(evidence, netdev=replace(evidence.netdev, netdevs=netdevs)))
    assert view.ports[0].netdevs == {NAME: expected}
