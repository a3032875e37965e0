"""Virtual functions: the kernel's attributes, damaged ones, and who is asked."""

import struct
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.machine import Machine
from lab.rdma_devices import Vf, vf_reply
from lab.samples import roce_host
from rdmadiag.facts import Missing, Why
from rdmadiag.facts.vfs import LinkPolicy, PhysicalFunction, VfFacts, VirtualFunction
from rdmadiag.host import netlink
from rdmadiag.sources.vfs import parse_vfs, read_vfs, vf_request

NETDEV = "ens1f0np0"
TWO = (Vf(), Vf("0000:08:00.3", guid=0, link=2, trust=1, vlan=100))


def functions(raw: bytes) -> tuple[VirtualFunction, ...]:
    found = parse_vfs(raw)
    assert not isinstance(found, Missing)
    return found


def read(machine: Machine) -> VfFacts:
    found = read_vfs(machine.host(), time.monotonic() + 5)
    assert isinstance(found, VfFacts)
    return found


def test_each_function_is_read_field_by_field() -> None:
    first, second = functions(vf_reply("eth0", TWO))
    assert (first.number, first.mac, first.vlan) == (0, "02:00:00:00:00:00", 0)
    assert first.node_guid == first.port_guid == "0c42:a103:0000:0099"
    assert (first.link, first.spoof_check) == (LinkPolicy.AUTO, True)
    assert (second.number, second.link, second.vlan) == (1, LinkPolicy.DISABLE, 100)
    assert (second.node_guid, second.trust) == ("0000:0000:0000:0000", True)


def test_what_a_driver_does_not_say_is_unsupported_and_not_off() -> None:
    """rtnl_fill_vfinfo sets trust and spoofchk to -1 before it asks."""
    (found,) = functions(vf_reply("eth0", (Vf(guid=None),)))
    for value in (found.trust, found.node_guid, found.port_guid):
        assert isinstance(value, Missing)
        assert value.why is Why.UNSUPPORTED


def test_a_link_policy_that_is_not_known_is_malformed() -> None:
    (found,) = functions(vf_reply("eth0", (Vf(link=9),)))
    assert found.link == Missing(Why.MALFORMED, "link state 9")


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", Why.ABSENT),
        (b"\x10", Why.MALFORMED),
        (netlink.request(16, 0, bytes(16)), Why.UNSUPPORTED),
    ],
    ids=["nothing", "torn", "without a list"],
)
def test_what_is_no_list_is_a_missing(raw: bytes, why: Why) -> None:
    found = parse_vfs(raw)
    assert isinstance(found, Missing)
    assert found.why is why


@given(st.data())
def test_any_bytes_are_functions_or_a_missing(data: st.DataObject) -> None:
    raw = bytearray(vf_reply("eth0", TWO))
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    found = parse_vfs(bytes(raw[: data.draw(st.integers(0, len(raw)) | st.just(len(raw)))]))
    for each in () if isinstance(found, Missing) else found:
        assert isinstance(each.link, LinkPolicy | Missing)
        assert isinstance(each.node_guid, str | Missing)


@given(st.binary(max_size=200))
def test_any_list_is_read_to_its_end(raw: bytes) -> None:
    for rows in (raw, netlink.attribute(1, raw)):
        parse_vfs(netlink.request(16, 0, bytes(16) + netlink.attribute(22, rows)))


@given(st.integers(0, 2**64 - 1))
def test_a_guid_is_its_number_in_the_form_of_sysfs(guid: int) -> None:
    (found,) = functions(vf_reply("eth0", (Vf(guid=guid),)))
    assert isinstance(found.node_guid, str)
    assert int(found.node_guid.replace(":", ""), 16) == guid
    assert [len(part) for part in found.node_guid.split(":")] == [4, 4, 4, 4]


def test_more_functions_than_fit_into_an_attribute_are_cut_off() -> None:
    assert len(functions(vf_reply("eth0", [Vf()] * 350))) == 256


def test_the_request_is_a_get_of_one_netdev_without_statistics() -> None:
    request = vf_request(7)
    (message,) = netlink.messages(request)
    assert (message.type, message.flags) == (18, netlink.NLM_F_REQUEST)
    assert request[16:32] == struct.pack("=BxHiII", 0, 0, 7, 0, 0)
    assert request[32:] == struct.pack("=HHI", 8, 29, 0x09)
    netlink.require_read_only(netlink.NETLINK_ROUTE, request)


# --- reading -----------------------------------------------------------------------------


def test_the_addresses_are_those_of_the_links() -> None:
    (found,) = read(roce_host().with_device(vfs=TWO)).physical
    assert found.netdev == NETDEV
    assert not isinstance(found.functions, Missing)
    assert [each.address for each in found.functions] == ["0000:08:00.2", "0000:08:00.3"]


def test_a_host_without_virtual_functions_sends_nothing() -> None:
    class Silent:
        """The machine's host, of which nothing may be asked by netlink."""

        def __init__(self, machine: Machine) -> None:
            self.host = machine.host()

        def __getattr__(self, name: str) -> object:
            assert name != "netlink"
            return getattr(self.host, name)

    found = read_vfs(Silent(roce_host()), time.monotonic() + 5)  # type: ignore[arg-type]
    assert found == VfFacts((), {})


def test_a_device_on_a_virtual_function_names_the_physical_one() -> None:
    found = read(roce_host().with_device(physfn="0000:08:00.0"))
    assert found == VfFacts((), {"mlx5_0": "0000:08:00.0"})


@pytest.mark.parametrize("why", [Why.TIMEOUT, Why.DENIED, Why.UNSUPPORTED])
def test_a_refusal_is_the_functions_own(why: Why) -> None:
    refused = Missing(why, "refused")
    found = read(roce_host().with_device(vfs=refused))
    assert found.physical == (PhysicalFunction(NETDEV, refused),)


@pytest.mark.parametrize("why", [Why.DENIED, Why.TIMEOUT])
def test_without_a_list_of_devices_there_is_no_answer(why: Why) -> None:
    class Closed:
        """A host whose list of devices cannot be read."""

        def list(self, path: str) -> Missing:
            return Missing(why, path)

    found = read_vfs(Closed(), time.monotonic() + 5)  # type: ignore[arg-type]
    assert found == Missing(why, "/sys/class/infiniband")


def test_a_host_without_devices_has_none() -> None:
    assert read(replace(roce_host(), devices=())) == VfFacts((), {})
