"""Expected values are those of RFC 6724, section 5, and of inet_select_addr of the kernel."""

from dataclasses import replace

import pytest

from lab.routing import DEFAULT_LABELS
from rdmadiag.facts import Address, Missing, Why
from rdmadiag.facts.routing import AddressLabel
from rdmadiag.view.source_address import preferred_source

LABELS = tuple(AddressLabel(*each) for each in DEFAULT_LABELS)
IPV4 = (
    Address("192.0.2.1", 24, "global", False, False),
    Address("10.1.0.1", 16, "global", False, False),
)
LINK = Address("fe80::1", 64, "link", False, False, deprecated=False)
ONE, TWO, TENTATIVE, UNIQUE = (
    Address(f"{network}::1", 64, "global", network.endswith("3"), False, deprecated=False)
    for network in ("2001:db8:1", "2001:db8:2", "2001:db8:3", "fd00:17")
)
IPV6 = (LINK, ONE, TWO, TENTATIVE)


@pytest.mark.parametrize(
    ("destination", "gateway", "found"),
    [
        ("8.8.8.8", None, "192.0.2.1"),
        ("8.8.8.8", "10.1.255.254", "10.1.0.1"),
        ("fe80::9", None, "fe80::1"),
        ("2001:db8:2:9::1", None, "2001:db8:2::1"),
        ("2001:db8:3::9", None, "2001:db8:2::1"),  # that of 3 is tentative
    ],
)
def test_the_source_is_chosen_as_the_kernel_does(
    destination: str, gateway: str | None, found: str
) -> None:
    assert preferred_source((*IPV4, *IPV6), destination, gateway, LABELS, "eth0") == found


def test_a_netdev_without_an_address_has_no_source() -> None:
    assert preferred_source((), "8.8.8.8", None, LABELS, "eth0") is None


OLD_TWO = replace(TWO, deprecated=True)
OF_A_SITE = (
    AddressLabel("fd00:17::/64", 117),
    AddressLabel("2001:db8:2::9/128", 117),
    *LABELS,
)
ON_ETH1 = tuple(replace(each, netdev="eth1") for each in OF_A_SITE[:2]) + LABELS


@pytest.mark.parametrize(
    ("own", "labels", "destination", "found"),
    [
        pytest.param((ONE, OLD_TWO), LABELS, "2001:db8:2::9", ONE, id="3: none that is deprecated"),
        pytest.param((UNIQUE, ONE), LABELS, "2001:db8:2::9", ONE, id="6: a global one"),
        pytest.param((ONE, UNIQUE), LABELS, "fd00:18::9", UNIQUE, id="6: a unique local one"),
        pytest.param((TWO, UNIQUE), OF_A_SITE, "2001:db8:2::9", UNIQUE, id="6: a site's own label"),
        pytest.param((TWO, UNIQUE), ON_ETH1, "2001:db8:2::9", TWO, id="6: one of another netdev"),
        pytest.param((TWO, ONE), (), "2001:db8:1::9", ONE, id="8: the longest prefix"),
        pytest.param(
            (ONE, replace(ONE, address="2001:db8:1::8")),
            LABELS,
            "2001:db8:1::9",
            ONE,
            id="8: not beyond its own prefix",
        ),
    ],
)
def test_a_rule_of_rfc_6724_decides(
    own: tuple[Address, ...], labels: tuple[AddressLabel, ...], destination: str, found: Address
) -> None:
    assert preferred_source(own, destination, None, labels, "eth0") == found.address


def test_where_none_of_the_netdevs_own_fits_another_netdevs_may() -> None:
    for own in ((OLD_TWO,), (LINK,), (LINK, OLD_TWO)):
        found = preferred_source(own, "2001:db8:2::9", None, LABELS, "eth0")
        assert isinstance(found, Missing)


def test_where_labels_may_decide_and_were_not_read_it_is_not_known() -> None:
    missing = Missing(Why.NOT_COLLECTED)
    assert preferred_source((ONE, TWO), "2001:db8:2::9", None, missing, "eth0") == missing
    assert preferred_source((LINK, TWO), "2001:db8:2::9", None, missing, "eth0") == TWO.address
    assert preferred_source(IPV4, "8.8.8.8", None, missing, "eth0") == "192.0.2.1"
