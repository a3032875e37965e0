"""Whether two GIDs reach each other."""

import pytest

from rdmadiag.facts import GidEntry, Missing, Why
from rdmadiag.facts.gid import Gid
from rdmadiag.facts.ib import GidType
from rdmadiag.gid.reach import Address, mismatches, same_subnet

UNKNOWN = Missing(Why.ABSENT)
V1, V2 = GidType.ROCE_V1, GidType.ROCE_V2


def at(
    gid: str, kind: GidType | None = V2, prefix: int | None = 24, vlan: int | None = 0
) -> Address:
    return Address(GidEntry(3, Gid.parse(gid), kind or UNKNOWN, UNKNOWN), prefix, vlan)


HERE = at("::ffff:192.0.2.1")


@pytest.mark.parametrize(
    ("local", "remote", "code"),
    [
        (HERE, at("::ffff:192.0.2.2"), None),
        (HERE, at("::ffff:198.51.100.2"), None),
        (HERE, at("::ffff:192.0.2.2", V1), "gid_type_mismatch"),
        (HERE, at("2001:db8::2"), "address_family_mismatch"),
        (HERE, at("::ffff:169.254.1.2"), "subnet_mismatch"),
        (at("::ffff:192.0.2.1", V1), at("::ffff:198.51.100.2", V1), "subnet_mismatch"),
        (HERE, at("::ffff:192.0.2.2", vlan=43), "vlan_mismatch"),
        (HERE, at("::ffff:198.51.100.2", vlan=43), None),
        (HERE, at("::ffff:192.0.2.2", vlan=None), None),
        (at("fe80::1", prefix=64), at("fe80::2", prefix=64, vlan=43), "vlan_mismatch"),
    ],
    ids=[
        "one subnet",
        "a router may join them",
        "v1 and v2",
        "IPv4 and IPv6",
        "routable and link-local",
        "no router passes v1",
        "one subnet, two VLANs",
        "two VLANs with a subnet each",
        "a VLAN that is not known",
        "link-local in two VLANs",
    ],
)
def test_what_keeps_two_addresses_apart(local: Address, remote: Address, code: str | None) -> None:
    found = [each.code for each in mismatches(local, remote)]
    assert found == ([code] if code else [])


def test_a_subnet_is_known_where_the_prefix_length_is() -> None:
    assert same_subnet(HERE, at("::ffff:192.0.2.9")) is True
    assert same_subnet(HERE, at("::ffff:192.0.3.9")) is False
    assert same_subnet(at("::ffff:192.0.2.1", prefix=None), HERE) is None
    assert same_subnet(HERE, at("2001:db8::1")) is False
    assert same_subnet(at("2001:db8::1", prefix=64), at("2001:db8::2", prefix=64)) is True
