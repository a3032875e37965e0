"""Addresses of two hosts in one paste."""

import pytest

from tests.explain.pasted.answer import ON_N1, ON_N2, first

ON_MINI1, ON_MINI2 = "mini1 ~ % ", "user@mini2 ~ % "
OF_A_MAC = "ifconfig en3 | grep inet\n\tinet {} netmask 0xffffff00 broadcast 10.0.5.255\n"
OF_LINUX = "ip -4 address show dev ib0\n    inet {}/24 brd 10.0.5.255 scope global ib0\n"


def test_two_macs_that_have_one_address() -> None:
    one = ON_MINI1 + OF_A_MAC.format("10.0.5.1")
    same = one + ON_MINI2 + OF_A_MAC.format("10.0.5.1")
    assert first(same) == ("peer-is-own-address", 4, True)
    assert first(one + ON_MINI2 + OF_A_MAC.format("10.0.5.2")) is None
    assert first(one + ON_MINI1 + OF_A_MAC.format("10.0.5.1")) is None  # asked twice


def test_on_linux_the_second_may_be_a_container_of_the_first() -> None:
    one = ON_N1 + OF_LINUX.format("10.0.5.1")
    assert first(one + ON_N2 + OF_LINUX.format("10.0.5.1")) == ("peer-is-own-address", 4, False)
    container = "root@6c1f0f6c2b1d:/# "
    assert first(one + container + OF_LINUX.format("10.0.5.1")) is None


@pytest.mark.parametrize("name", ["docker0", "virbr0", "lo", "cni0", "br-1f2e"])
def test_addresses_that_every_host_has(name: str) -> None:
    listed = OF_LINUX.format("172.17.0.1").replace("ib0", name)
    assert first(ON_N1 + listed + ON_N2 + listed) is None
