"""Groups that nobody else has: of this link or this site alone, and of the port's IP version."""

import ipaddress
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmadiag.facts.gid import Gid
from rdmadiag.verbs.multicast import Interest, drawn, netdev_of


@given(st.randoms(use_true_random=False))
def test_a_port_with_an_ipv4_gid_gets_a_group_of_the_local_scope(source: random.Random) -> None:
    group = drawn(Gid.parse("::ffff:192.0.2.1"), source)
    address = ipaddress.IPv6Address(group).ipv4_mapped
    assert address in ipaddress.IPv4Network("239.255.0.0/16")  # RFC 2365
    assert address.is_multicast


@given(st.sampled_from(["2001:db8::1", "fe80::1"]), st.randoms(use_true_random=False))
def test_another_port_gets_a_transient_group_of_its_link(gid: str, source: random.Random) -> None:
    address = ipaddress.IPv6Address(drawn(Gid.parse(gid), source))
    assert address in ipaddress.IPv6Network("ff12::/16")  # RFC 4291, 2.7


@pytest.mark.parametrize("group", ["::ffff:239.255.77.1", "ff12::4d01"], ids=["IPv4", "IPv6"])
def test_an_interface_that_is_not_there_cannot_join(group: str) -> None:
    with pytest.raises(OSError, match="no interface"):
        Interest("no_such_netdev", Gid.parse(group).raw)


def test_a_device_without_an_interface_is_an_os_error() -> None:
    with pytest.raises(OSError, match="No such file"):
        netdev_of("no_such_device", 1, 0)
