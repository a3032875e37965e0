"""Whether one address reaches another, as far as the two GIDs show."""

from collections.abc import Iterator
from typing import Final

from rdmadiag.facts import GidEntry
from rdmadiag.facts.gid import Gid, Scope
from rdmadiag.facts.ib import GidType
from rdmadiag.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Address:
    """The row that one end sends from, and what is known of its network."""

    entry: GidEntry  # on Thunderbolt without a type
    prefix_length: int | None = None  # of the address in it, where it is known
    vlan: int | None = None  # 0: untagged; None: not known

    @property
    def gid(self) -> Gid:
        """The row's."""
        return self.entry.gid

    @property
    def type(self) -> GidType | None:
        """The row's; None where it is not known."""
        return self.entry.known_type


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why these two ends cannot talk."""

    code: str
    text: str


def mismatches(local: Address, remote: Address) -> Iterator[Mismatch]:
    """Everything that keeps the two apart, seen from `local`."""
    for code in _codes(local, remote):
        yield Mismatch(code, _TEXTS[code](local, remote))


def are_apart(local: Address, remote: Address) -> bool:
    """Whether anything does."""
    return next(_codes(local, remote), None) is not None


def _codes(local: Address, remote: Address) -> Iterator[str]:
    if GidType.ROCE_V1 in (local.type, remote.type) and local.type != remote.type:
        yield "gid_type_mismatch"
    if local.gid.family is not remote.gid.family:
        yield "address_family_mismatch"
    elif _cannot_route(local, remote):
        yield "subnet_mismatch"
    elif _other_vlan(local, remote):
        yield "vlan_mismatch"


def same_subnet(local: Address, remote: Address) -> bool | None:
    """Whether this end's subnet holds the peer's address; None where it is not known."""
    if local.gid.family is not remote.gid.family:
        return False
    if local.prefix_length is None:
        return None
    offset = 96 if local.gid.is_ipv4_mapped else 0
    bits = max(0, 128 - offset - local.prefix_length)
    ours, theirs = (int.from_bytes(end.raw) >> bits for end in (local.gid, remote.gid))
    return ours == theirs


def _other_vlan(local: Address, remote: Address) -> bool:
    """Whether the two are in different VLANs with no router between them."""
    if None in (local.vlan, remote.vlan) or local.vlan == remote.vlan:
        return False
    return bool(same_subnet(local, remote)) or not _is_routable(local, remote)


def _is_routable(local: Address, remote: Address) -> bool:
    scopes = (local.gid.scope, remote.gid.scope)
    return Scope.LINK_LOCAL not in scopes and GidType.ROCE_V1 not in (local.type, remote.type)


def _cannot_route(local: Address, remote: Address) -> bool:
    """Whether two addresses of one family are sure not to reach each other."""
    scopes = {local.gid.scope, remote.gid.scope}
    if len(scopes) > 1 and Scope.LINK_LOCAL in scopes:
        return True
    # RoCE v1 is an Ethernet frame without IP: it stays in its broadcast domain.
    return local.type is GidType.ROCE_V1 and same_subnet(local, remote) is False


def _tag(vlan: int | None) -> str:
    return f"in VLAN {vlan}" if vlan else "untagged"


def _types(local: Address, remote: Address) -> str:
    return f"this end's GID is {local.type}, the peer's {remote.type}"


def _families(local: Address, remote: Address) -> str:
    return (
        f"this end's GID is {local.gid.family} ({local.gid}), "
        f"the peer's {remote.gid.family} ({remote.gid})"
    )


def _subnets(local: Address, remote: Address) -> str:
    return (
        f"{local.gid} and {remote.gid} are in different subnets, and no router passes "
        f"{'RoCE v1' if local.type is GidType.ROCE_V1 else 'link-local addresses'}"
    )


def _vlans(local: Address, remote: Address) -> str:
    return f"this end's GID is {_tag(local.vlan)}, the peer's {_tag(remote.vlan)}"


_TEXTS: Final = {
    "gid_type_mismatch": _types,
    "address_family_mismatch": _families,
    "subnet_mismatch": _subnets,
    "vlan_mismatch": _vlans,
}
